//! The `layout!` macro: declares a fixed structure once and gives it its size, `write` and `parse`.

use super::{FileAttributes, FileTime, ReparseTag};
use crate::FileId;
use wire::{Cursor, Truncated};

/// A value with one size on the wire.
pub trait Field: Sized {
    /// Bytes on the wire.
    const SIZE: usize;
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads the value.
    ///
    /// # Errors
    /// [`Truncated`] when the data ends first.
    fn take(from: &mut Cursor<'_>) -> Result<Self, Truncated>;
}

macro_rules! number_fields {
    ($($ty:ty)*) => {$(
        impl Field for $ty {
            const SIZE: usize = size_of::<$ty>();
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn take(from: &mut Cursor<'_>) -> Result<Self, Truncated> {
                Ok(<$ty>::from_le_bytes(from.array()?))
            }
        }
    )*};
}

number_fields! { u8 u16 u32 u64 i64 u128 }

/// MS-FSCC 2.1.8: one byte. Any value but zero is true.
impl Field for bool {
    const SIZE: usize = 1;
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    #[inline]
    fn take(from: &mut Cursor<'_>) -> Result<Self, Truncated> {
        Ok(from.u8()? != 0)
    }
}

impl<const N: usize> Field for [u8; N] {
    const SIZE: usize = N;
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    #[inline]
    fn take(from: &mut Cursor<'_>) -> Result<Self, Truncated> {
        from.array()
    }
}

impl Field for FileId {
    const SIZE: usize = 16;
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.persistent.put(out);
        self.volatile.put(out);
    }
    #[inline]
    fn take(from: &mut Cursor<'_>) -> Result<Self, Truncated> {
        Ok(FileId { persistent: from.u64_le()?, volatile: from.u64_le()? })
    }
}

impl Field for FileTime {
    const SIZE: usize = 8;
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    #[inline]
    fn take(from: &mut Cursor<'_>) -> Result<Self, Truncated> {
        Ok(FileTime(from.i64_le()?))
    }
}

impl Field for FileAttributes {
    const SIZE: usize = 4;
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.bits().put(out);
    }
    #[inline]
    fn take(from: &mut Cursor<'_>) -> Result<Self, Truncated> {
        Ok(FileAttributes::from_bits_retain(from.u32_le()?))
    }
}

impl Field for ReparseTag {
    const SIZE: usize = 4;
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    #[inline]
    fn take(from: &mut Cursor<'_>) -> Result<Self, Truncated> {
        Ok(ReparseTag(from.u32_le()?))
    }
}

/// Declares structures of fixed size. `_: N` stands for N reserved bytes. They are written as zeros and
/// skipped by reads.
macro_rules! layout {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident { $($fields:tt)* }
    )*) => {$(
        layout!(@fields [$(#[$meta])*] $name [] [] $($fields)*);
    )*};
    (@fields $metas:tt $name:ident [$($decl:tt)*] [$($step:tt)*] _: $pad:literal, $($rest:tt)*) => {
        layout!(@fields $metas $name [$($decl)*] [$($step)* (pad $pad)] $($rest)*);
    };
    (@fields $metas:tt $name:ident [$($decl:tt)*] [$($step:tt)*]
        $(#[$fm:meta])* $field:ident: $ty:ty, $($rest:tt)*) => {
        layout!(
            @fields $metas $name
            [$($decl)* $(#[$fm])* pub $field: $ty,]
            [$($step)* (get $field $ty)]
            $($rest)*
        );
    };
    (@fields [$($meta:tt)*] $name:ident [$($decl:tt)*] [$($step:tt)*]) => {
        $($meta)*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name { $($decl)* }

        impl $name {
            /// Bytes on the wire.
            pub const SIZE: usize = 0 $(+ layout!(@size $step))*;

            /// Appends the structure.
            #[inline]
            pub fn write(&self, out: &mut Vec<u8>) {
                $(layout!(@put self out $step);)*
            }

            /// Reads the structure from the start of `data`. The bytes after it are ignored.
            ///
            /// # Errors
            /// [`BadBuffer::Length`](crate::fscc::BadBuffer::Length) if `data` is shorter than
            /// [`Self::SIZE`].
            pub fn parse(data: &[u8]) -> Result<Self, $crate::fscc::BadBuffer> {
                Ok($crate::fscc::layout::Field::take(&mut wire::Cursor::new(data))?)
            }
        }

        impl $crate::fscc::layout::Field for $name {
            const SIZE: usize = Self::SIZE;
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                self.write(out);
            }
            fn take(from: &mut wire::Cursor<'_>) -> Result<Self, wire::Truncated> {
                layout!(@read from $name [] $($step)*)
            }
        }
    };
    (@size (pad $n:literal)) => { $n };
    (@size (get $field:ident $ty:ty)) => { <$ty as $crate::fscc::layout::Field>::SIZE };
    (@put $self:ident $out:ident (pad $n:literal)) => { $out.extend_from_slice(&[0u8; $n]) };
    (@put $self:ident $out:ident (get $field:ident $ty:ty)) => {
        $crate::fscc::layout::Field::put(&$self.$field, $out)
    };
    (@read $from:ident $name:ident [$($field:ident)*]) => { Ok($name { $($field),* }) };
    (@read $from:ident $name:ident [$($field:ident)*] (pad $n:literal) $($rest:tt)*) => {{
        $from.skip($n)?;
        layout!(@read $from $name [$($field)*] $($rest)*)
    }};
    (@read $from:ident $name:ident [$($have:ident)*] (get $field:ident $ty:ty) $($rest:tt)*) => {{
        let $field = <$ty as $crate::fscc::layout::Field>::take($from)?;
        layout!(@read $from $name [$($have)* $field] $($rest)*)
    }};
}

pub(crate) use layout;
