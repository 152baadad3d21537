//! Enums and bit sets for numbers that come from a peer: what is not known is kept, never refused.

/// Defines an enum over an unsigned number that keeps unknown values in `Unknown`, with `From` both ways
/// and [`crate::list::Element`], so that lists of it can be read from a frame.
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
            /// The number as it stands in the message.
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

        impl $crate::list::Element for $name {
            const SIZE: usize = size_of::<$repr>();

            #[inline]
            fn read(bytes: &[u8]) -> Self {
                let mut raw = [0; size_of::<$repr>()];
                raw.copy_from_slice(&bytes[..size_of::<$repr>()]);
                $name::new(<$repr>::from_le_bytes(raw))
            }

            #[inline]
            fn write(&self, w: &mut wire::Writer<'_>) {
                w.bytes(&self.get().to_le_bytes());
            }
        }
    };
}

/// Defines a bit set over an unsigned number that keeps the bits it does not know.
macro_rules! wire_flags {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident: $repr:ty {
            $($(#[doc = $doc:literal])* $flag:ident = $value:literal,)*
        }
    ) => {
        bitflags::bitflags! {
            $(#[$meta])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
            $vis struct $name: $repr {
                $(
                    $(#[doc = $doc])*
                    #[doc = concat!("Bit `", stringify!($value), "`.")]
                    const $flag = $value;
                )*
                const _ = !0;
            }
        }
    };
}

pub(crate) use {wire_enum, wire_flags};
