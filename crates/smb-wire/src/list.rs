//! Lists of elements of one fixed size. They are read lazily from a frame or written from a slice of values.

use std::fmt;
use wire::Writer;

/// An element of a fixed size.
pub trait Element: Copy {
    /// Its size in a message, in bytes.
    const SIZE: usize;

    /// Reads an element from the start of `bytes`, which has at least [`Element::SIZE`] bytes.
    fn read(bytes: &[u8]) -> Self;

    /// Appends the element.
    fn write(&self, w: &mut Writer<'_>);
}

/// A list, either as bytes of a frame or as a slice of values.
#[derive(Clone, Copy)]
pub enum WireList<'a, T> {
    /// The elements as bytes of a message. An incomplete last element is ignored.
    Wire(&'a [u8]),
    /// Elements to be written.
    Values(&'a [T]),
}

impl<'a, T: Element> WireList<'a, T> {
    /// A list without elements.
    pub const EMPTY: Self = WireList::Wire(&[]);

    /// How many elements there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            WireList::Wire(bytes) => bytes.len() / T::SIZE,
            WireList::Values(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + Clone + use<'a, T> {
        let list = *self;
        (0..list.len()).map(move |i| match list {
            WireList::Wire(bytes) => T::read(&bytes[i * T::SIZE..]),
            WireList::Values(values) => values[i],
        })
    }

    /// Whether `wanted` is one of the elements.
    pub fn contains(&self, wanted: T) -> bool
    where
        T: PartialEq,
    {
        self.iter().any(|element| element == wanted)
    }

    /// Appends all elements.
    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        match self {
            WireList::Wire(bytes) => w.bytes(&bytes[..self.len() * T::SIZE]),
            WireList::Values(values) => values.iter().for_each(|value| value.write(w)),
        }
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for WireList<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Element + PartialEq> PartialEq for WireList<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Element + Eq> Eq for WireList<'_, T> {}
