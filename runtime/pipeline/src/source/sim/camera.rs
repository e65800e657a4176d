//! The pinhole camera: where it stands and where a point of the world lands in the picture.

use super::maths::{V3, cos_turns, sin_turns, v3};

/// Nothing nearer than this (metres along the axis) is drawn.
pub(super) const NEAR: f32 = 0.4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Camera {
    pub(super) pos: V3,
    right: V3,
    down: V3,
    pub(super) ahead: V3,
    /// Focal length in pixels.
    pub(super) focal: f32,
    /// Principal point in pixels.
    pub(super) centre: (f32, f32),
}

impl Camera {
    /// At `pos`, turned by `yaw` turns from +z towards +x and by `pitch` turns downwards.
    pub(super) fn new(pos: V3, yaw: f32, pitch: f32, focal: f32, centre: (f32, f32)) -> Camera {
        let (sy, cy, sp, cp) = (sin_turns(yaw), cos_turns(yaw), sin_turns(pitch), cos_turns(pitch));
        Camera {
            pos,
            right: v3(cy, 0.0, -sy),
            down: v3(-sy * sp, -cp, -cy * sp),
            ahead: v3(sy * cp, -sp, cy * cp),
            focal,
            centre,
        }
    }

    /// Camera coordinates: to the right, down, ahead.
    pub(super) fn view(&self, p: V3) -> V3 {
        let d = p - self.pos;
        v3(d.dot(self.right), d.dot(self.down), d.dot(self.ahead))
    }

    /// Pixel position of a point in camera coordinates, which must lie ahead.
    pub(super) fn pixel(&self, v: V3) -> (f32, f32) {
        let k = self.focal / v.z;
        (self.centre.0 + v.x * k, self.centre.1 + v.y * k)
    }

    /// Direction through a pixel position; its length along the axis is 1.
    pub(super) fn ray(&self, u: f32, v: f32) -> V3 {
        let k = 1.0 / self.focal;
        self.ahead + self.right * ((u - self.centre.0) * k) + self.down * ((v - self.centre.1) * k)
    }

    /// The same camera with its picture moved by whole pixels.
    pub(super) fn shifted(&self, dx: i32, dy: i32) -> Camera {
        Camera { centre: (self.centre.0 + dx as f32, self.centre.1 + dy as f32), ..*self }
    }
}
