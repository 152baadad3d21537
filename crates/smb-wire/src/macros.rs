//! Enums and bit sets for numbers from a peer. Unknown values are kept, not refused.

/// [`wire::wire_enum`] with [`crate::list::Element`], so that lists of it can be read from a frame.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident: $repr:ty {
            $($(#[$vmeta:meta])* $variant:ident = $value:literal,)*
        }
    ) => {
        wire::wire_enum! {
            $(#[$meta])*
            $vis enum $name: $repr {
                $($(#[$vmeta])* $variant = $value,)*
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

/// Defines a bit set over an unsigned number that keeps unknown bits.
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
