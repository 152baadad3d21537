//! The methods that a wrapper passes on to the wrapped volume or node unchanged.

/// Writes methods that call those of the wrapped volume or node. `|it|` names the wrapper, and the
/// expression behind it is the wrapped one.
macro_rules! delegate {
    (|$it:ident| $inner:expr; $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $out:ty)?;)+) => {$(
        fn $name(&self $(, $arg: $type)*) $(-> $out)? {
            let $it = self;
            $inner.$name($($arg),*)
        }
    )+};
}

pub(crate) use delegate;
