//! XDR types declared as in the RFCs: enums, bit sets, structures and unions that can encode and decode
//! themselves.

/// An XDR enum: [`wire::wire_enum`] over `u32`, with [`crate::xdr::Encode`] and [`crate::xdr::Decode`].
macro_rules! xdr_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$vmeta:meta])* $variant:ident = $value:literal,)*
        }
    ) => {
        wire::wire_enum! {
            $(#[$meta])*
            $vis enum $name: u32 {
                $($(#[$vmeta])* $variant = $value,)*
            }
        }

        impl $crate::xdr::Encode for $name {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                self.get().encode(out);
            }
        }

        impl<'d> $crate::xdr::Decode<'d> for $name {
            #[inline]
            fn decode(r: &mut wire::Cursor<'d>) -> Result<Self, $crate::Malformed> {
                u32::decode(r).map($name::new)
            }
        }
    };
}

/// A bit set over `u32` that keeps unknown bits.
macro_rules! xdr_flags {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[doc = $doc:literal])* $flag:ident = $value:literal,)*
        }
    ) => {
        bitflags::bitflags! {
            $(#[$meta])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
            $vis struct $name: u32 {
                $(
                    $(#[doc = $doc])*
                    #[doc = concat!("Bit `", stringify!($value), "`.")]
                    const $flag = $value;
                )*
                const _ = !0;
            }
        }

        impl $crate::xdr::Encode for $name {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                self.bits().encode(out);
            }
        }

        impl<'d> $crate::xdr::Decode<'d> for $name {
            #[inline]
            fn decode(r: &mut wire::Cursor<'d>) -> Result<Self, $crate::Malformed> {
                u32::decode(r).map($name::from_bits_retain)
            }
        }
    };
}

/// An XDR struct. `of "X4args"` is its name in the RFC, which its errors carry.
macro_rules! xdr_struct {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident<$lt:lifetime> of $rfc:literal {
            $($(#[$fmeta:meta])* $field:ident: $ty:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis struct $name<$lt> {
            $(
                $(#[$fmeta])*
                #[doc = concat!("\n\n`", stringify!($field), "` of ", $rfc, ".")]
                pub $field: $ty,
            )*
        }

        impl $crate::xdr::Encode for $name<'_> {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$field.encode(out);)*
            }
        }

        impl<$lt> $crate::xdr::Decode<$lt> for $name<$lt> {
            #[inline]
            fn decode(r: &mut wire::Cursor<$lt>) -> Result<Self, $crate::Malformed> {
                Ok($name {
                    $($field: <$ty as $crate::xdr::Decode<$lt>>::decode(r)
                        .map_err(|e| e.within($rfc, stringify!($field)))?,)*
                })
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident of $rfc:literal {
            $($(#[$fmeta:meta])* $field:ident: $ty:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis struct $name {
            $(
                $(#[$fmeta])*
                #[doc = concat!("\n\n`", stringify!($field), "` of ", $rfc, ".")]
                pub $field: $ty,
            )*
        }

        impl $crate::xdr::Encode for $name {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$field.encode(out);)*
            }
        }

        impl<'d> $crate::xdr::Decode<'d> for $name {
            #[inline]
            fn decode(r: &mut wire::Cursor<'d>) -> Result<Self, $crate::Malformed> {
                Ok($name {
                    $($field: <$ty as $crate::xdr::Decode<'d>>::decode(r)
                        .map_err(|e| e.within($rfc, stringify!($field)))?,)*
                })
            }
        }
    };
}

/// An XDR union over a 32-bit discriminant: arms without data, arms with data, and optionally a `default` arm
/// that keeps the discriminant and has no data. Without a `default`, an unknown discriminant is malformed.
macro_rules! xdr_union {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident<$lt:lifetime> of $rfc:literal {
            void { $($(#[$vmeta:meta])* $void:ident = $vvalue:literal,)* }
            data { $($(#[$dmeta:meta])* $data:ident($ty:ty) = $dvalue:literal,)* }
            $(default $(#[$ometa:meta])* $other:ident)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name<$lt> {
            $($(#[$vmeta])* #[doc = concat!("\n\nDiscriminant `", stringify!($vvalue), "`.")] $void,)*
            $($(#[$dmeta])* #[doc = concat!("\n\nDiscriminant `", stringify!($dvalue), "`.")] $data($ty),)*
            $($(#[$ometa])* $other(u32),)?
        }
        xdr_union!(@encode $name<'_> { $($void = $vvalue,)* } { $($data = $dvalue,)* } { $($other)? });
        impl<$lt> $crate::xdr::Decode<$lt> for $name<$lt> {
            fn decode(r: &mut wire::Cursor<$lt>) -> Result<Self, $crate::Malformed> {
                xdr_union!(
                    @decode r, $lt, $rfc, $name
                    { $($void = $vvalue,)* } { $($data($ty) = $dvalue,)* } { $($other)? }
                )
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident of $rfc:literal {
            void { $($(#[$vmeta:meta])* $void:ident = $vvalue:literal,)* }
            data { $($(#[$dmeta:meta])* $data:ident($ty:ty) = $dvalue:literal,)* }
            $(default $(#[$ometa:meta])* $other:ident)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$vmeta])* #[doc = concat!("\n\nDiscriminant `", stringify!($vvalue), "`.")] $void,)*
            $($(#[$dmeta])* #[doc = concat!("\n\nDiscriminant `", stringify!($dvalue), "`.")] $data($ty),)*
            $($(#[$ometa])* $other(u32),)?
        }
        xdr_union!(@encode $name { $($void = $vvalue,)* } { $($data = $dvalue,)* } { $($other)? });
        impl<'d> $crate::xdr::Decode<'d> for $name {
            fn decode(r: &mut wire::Cursor<'d>) -> Result<Self, $crate::Malformed> {
                xdr_union!(
                    @decode r, 'd, $rfc, $name
                    { $($void = $vvalue,)* } { $($data($ty) = $dvalue,)* } { $($other)? }
                )
            }
        }
    };
    (
        @encode $full:ty
        { $($void:ident = $vvalue:literal,)* } { $($data:ident = $dvalue:literal,)* } { $($other:ident)? }
    ) => {
        impl $crate::xdr::Encode for $full {
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$void => <u32 as $crate::xdr::Encode>::encode(&$vvalue, out),)*
                    $(Self::$data(value) => {
                        <u32 as $crate::xdr::Encode>::encode(&$dvalue, out);
                        value.encode(out);
                    })*
                    $(Self::$other(value) => value.encode(out),)?
                }
            }
        }
    };
    (
        @decode $r:ident, $lt:lifetime, $rfc:literal, $name:ident
        { $($void:ident = $vvalue:literal,)* }
        { $($data:ident($ty:ty) = $dvalue:literal,)* }
        { $($other:ident)? }
    ) => {
        match u32::decode($r).map_err(|e| e.within($rfc, "discriminant"))? {
            $($vvalue => Ok($name::$void),)*
            $($dvalue => <$ty as $crate::xdr::Decode<$lt>>::decode($r)
                .map($name::$data)
                .map_err(|e| e.within($rfc, stringify!($data))),)*
            $(value => Ok($name::$other(value)),)?
            #[allow(unreachable_patterns)]
            _ => Err($crate::Malformed::new($rfc, "discriminant")),
        }
    };
}

pub(crate) use {xdr_enum, xdr_flags, xdr_struct, xdr_union};
