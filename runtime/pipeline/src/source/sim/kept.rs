//! Pictures of objects that stand still: before a camera that does not shake they are the same in every frame.

use super::raster::{Coverage, Row};

/// The rows of one object as they go into the frame, after what hides it.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// The object's state; None before it has been drawn.
    state: Option<u8>,
    /// Row, first column and number of pixels.
    spans: Vec<(i32, i32, u32)>,
    rgba: Vec<[u8; 4]>,
    who: Vec<u8>,
    pub(super) truncation: f32,
    pub(super) cover: [Coverage; 2],
}

impl Kept {
    /// Whether the object has been drawn in this state.
    pub(super) fn holds(&self, state: u8) -> bool {
        self.state == Some(state)
    }

    /// Empties it for another state.
    pub(super) fn start(&mut self, state: u8) {
        self.state = Some(state);
        self.spans.clear();
        self.rgba.clear();
        self.who.clear();
        (self.truncation, self.cover) = (0.0, [Coverage::default(); 2]);
    }

    pub(super) fn put(&mut self, row: &Row<'_>) {
        self.spans.push((row.y, row.x, row.rgba.len() as u32));
        self.rgba.extend_from_slice(row.rgba);
        self.who.extend_from_slice(row.who);
    }

    /// All its rows, from the top.
    pub(super) fn rows(&mut self) -> impl Iterator<Item = Row<'_>> {
        let (mut rgba, mut who) = (&mut self.rgba[..], &mut self.who[..]);
        self.spans.iter().map_while(move |&(y, x, n)| {
            let n = n as usize;
            Some(Row { y, x, rgba: rgba.split_off_mut(..n)?, who: who.split_off_mut(..n)? })
        })
    }
}
