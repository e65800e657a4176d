//! Text in the built-in font.

use super::canvas::Canvas;
use crate::{Error, ErrorKind, Result};
use ab_glyph::{Font, FontRef, PxScale, ScaleFont};

pub(super) struct Text {
    font: FontRef<'static>,
}

impl Text {
    pub(super) fn new() -> Result<Self> {
        let font = FontRef::try_from_slice(dejavu::sans_mono::regular())
            .map_err(|e| Error::new(ErrorKind::Image, format!("the built-in font cannot be read: {e}")))?;
        Ok(Text { font })
    }

    /// Width of a text `size` pixels high.
    pub(super) fn width(&self, text: &str, size: f32) -> f32 {
        let font = self.font.as_scaled(PxScale::from(size));
        text.chars().filter(|c| !c.is_control()).map(|c| font.h_advance(font.glyph_id(c))).sum()
    }

    /// Draws a text with its top left corner at `at`.
    pub(super) fn draw(
        &self,
        canvas: &mut Canvas<'_>,
        text: &str,
        at: (f32, f32),
        size: f32,
        color: [u8; 3],
    ) {
        let scale = PxScale::from(size);
        let font = self.font.as_scaled(scale);
        let (mut x, baseline) = (at.0, at.1 + font.ascent());
        for c in text.chars().filter(|c| !c.is_control()) {
            let id = font.glyph_id(c);
            let glyph = id.with_scale_and_position(scale, ab_glyph::point(x, baseline));
            x += font.h_advance(id);
            if let Some(outline) = self.font.outline_glyph(glyph) {
                let from = outline.px_bounds().min;
                outline.draw(|gx, gy, cover| {
                    let (px, py) = (from.x + gx as f32, from.y + gy as f32);
                    if px >= 0.0 && py >= 0.0 {
                        canvas.mix(px as usize, py as usize, color, cover.min(1.0));
                    }
                });
            }
        }
    }
}
