//! What a wrapper around a volume or a node leaves as it is.

/// Writes methods that do what those of the wrapped volume or node do: `|it|` stands for the wrapper, and behind it is where the
/// wrapped one is.
macro_rules! delegate {
    (|$it:ident| $inner:expr; $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $out:ty)?;)+) => {$(
        fn $name(&self $(, $arg: $type)*) $(-> $out)? {
            let $it = self;
            $inner.$name($($arg),*)
        }
    )+};
}

pub(crate) use delegate;
