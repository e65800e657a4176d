//! Frames that wait for the model, the one due first in front.

use std::collections::VecDeque;

use crate::clock::Time;

/// What the batcher knows about a frame. The picture itself stays with the caller, under `source` and `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Which stream it belongs to: 0 up to the number of streams.
    pub source: u32,
    /// The frame's number in its stream; grows from frame to frame.
    pub id: u64,
    /// When it was taken.
    pub captured: Time,
    /// When its result is no longer of use.
    pub deadline: Time,
}

/// Waiting frames by deadline; those with the same deadline in the order they came. Its room is allocated once.
#[derive(Debug)]
pub struct Queue {
    frames: VecDeque<Ticket>,
    room: usize,
}

impl Queue {
    /// An empty queue for `room` frames.
    pub fn new(room: usize) -> Queue {
        Queue { frames: VecDeque::with_capacity(room), room }
    }

    /// Frames that wait.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether there is no room for another.
    pub fn is_full(&self) -> bool {
        self.frames.len() >= self.room
    }

    /// The frame due first.
    pub fn first(&self) -> Option<&Ticket> {
        self.frames.front()
    }

    /// All frames, the one due first in front.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Ticket> + Clone {
        self.frames.iter()
    }

    /// Puts `frame` at its place; `false`, and nothing happens, if there is no room.
    pub fn push(&mut self, frame: Ticket) -> bool {
        if self.is_full() {
            return false;
        }
        // Frames mostly come in the order in which they are due.
        let behind = self.frames.iter().rev().take_while(|f| f.deadline > frame.deadline).count();
        self.frames.insert(self.frames.len() - behind, frame);
        true
    }

    /// Takes the frame due first.
    pub fn pop(&mut self) -> Option<Ticket> {
        self.frames.pop_front()
    }

    /// Takes the frame at `place`, counted from the one due first.
    pub fn remove(&mut self, place: usize) -> Option<Ticket> {
        self.frames.remove(place)
    }
}
