//! The form of every number from a closed set of a protocol. Unknown values are kept, never refused, so that
//! a reader decides for itself what they mean.

/// Defines an enum over an unsigned number that keeps unknown values in `Unknown`, with `From` both ways.
/// `$value` is written as in the specification.
#[macro_export]
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident: $repr:ty {
            $($(#[$vmeta:meta])* $variant:ident = $value:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $name {
            $(
                $(#[$vmeta])*
                #[doc = concat!("Value `", stringify!($value), "`.")]
                $variant,
            )*
            /// A value without a name here.
            Unknown($repr),
        }

        impl $name {
            /// The number as in the message.
            #[inline]
            #[must_use]
            pub const fn get(self) -> $repr {
                match self {
                    $($name::$variant => $value,)*
                    $name::Unknown(value) => value,
                }
            }

            /// The named value for a number, or `Unknown`.
            #[inline]
            #[must_use]
            pub const fn new(value: $repr) -> Self {
                match value {
                    $($value => $name::$variant,)*
                    value => $name::Unknown(value),
                }
            }
        }

        impl From<$repr> for $name {
            #[inline]
            fn from(value: $repr) -> Self {
                $name::new(value)
            }
        }

        impl From<$name> for $repr {
            #[inline]
            fn from(value: $name) -> Self {
                value.get()
            }
        }
    };
}
