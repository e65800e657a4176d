//! The simulated camera as a source: paced like a camera unless told otherwise.

use std::sync::Arc;
use std::time::Duration;

use saltica_tensor::PixelFormat;

use super::sim::{FrameBuf, Sim, SimClip, SimSpec};
use super::{Next, Opened, Source, SourceUri};
use crate::frame::{Frame, FrameFormat, Pool, monotonic};
use crate::{Error, ErrorKind, Result};

/// Frames of a [`Sim`], numbered by their `sequence`, in buffers that go round.
#[derive(Debug)]
pub struct SimSource {
    spec: SimSpec,
    paced: bool,
    pool: Arc<Pool>,
    opened: Option<Running>,
    /// The next frame; it goes on after a reopening.
    number: u64,
    /// The frame at which it ends (`frames=`), if it does.
    end: Option<u64>,
}

#[derive(Debug)]
struct Running {
    sim: Sim,
    format: FrameFormat,
    /// When frame `from` was due.
    start: Duration,
    from: u64,
}

impl SimSource {
    /// Buffers unless asked otherwise.
    const BUFFERS: u32 = 6;

    pub(crate) fn new(uri: &SourceUri) -> Result<SimSource> {
        let clip = SimClip::parse(&format!("sim:{}?{}", uri.target(), uri.extra()))?;
        let has = |key: &str| uri.extra().split('&').any(|p| p.split('=').next() == Some(key));
        if clip.step != 1 {
            return Err(Error::new(
                ErrorKind::Value,
                format!("{uri}: step={} found: a camera leaves out no frames, expected 1", clip.step),
            ));
        }
        let o = uri.options();
        Ok(SimSource {
            number: clip.first,
            // A camera goes on until it is told how many frames it has.
            end: has("frames").then(|| clip.first + clip.frames),
            spec: clip.spec,
            paced: o.pace.unwrap_or(true),
            pool: Pool::new(o.buffers.unwrap_or(Self::BUFFERS) as usize),
            opened: None,
        })
    }
}

impl Source for SimSource {
    fn open(&mut self, _within: Duration) -> Result<Opened> {
        let format = FrameFormat::packed(PixelFormat::Rgb8, self.spec.width, self.spec.height)?;
        let sim = Sim::open(&self.spec)?;
        self.opened = Some(Running { sim, format, start: monotonic(), from: self.number });
        Ok(Opened {
            format: Some(format),
            fps: Some(f64::from(self.spec.fps)),
            note: format!("simulated, {format}{}", if self.paced { "" } else { ", as fast as it is used" }),
        })
    }

    fn next(&mut self, wait: Duration) -> Result<Next> {
        let Some(run) = &mut self.opened else { return Ok(Next::Nothing) };
        let mut captured = monotonic();
        if self.paced {
            let period = Duration::from_secs_f64(1.0 / f64::from(self.spec.fps));
            let since = captured.saturating_sub(run.start);
            // A camera does not wait for us: frames whose time has passed are lost, which their numbers show.
            let now_due = run.from + (since.as_secs_f64() / period.as_secs_f64()) as u64;
            self.number = self.number.max(now_due);
            let due = run.start + period.mul_f64((self.number - run.from) as f64);
            let left = due.saturating_sub(captured);
            std::thread::sleep(left.min(wait));
            if left > wait {
                return Ok(Next::Nothing);
            }
            captured = due;
        }
        if self.end.is_some_and(|end| self.number >= end) {
            return Ok(Next::End);
        }
        let bytes = run.format.needed(0);
        let lease = self.pool.take(bytes, if self.paced { Duration::ZERO } else { wait });
        let Some(mut lease) = lease else {
            if !self.paced {
                return Ok(Next::Busy);
            }
            self.number += 1;
            return Ok(Next::Dropped(super::DropReason::NoBuffer));
        };
        let mut buf = FrameBuf { width: 0, height: 0, rgb: std::mem::take(lease.bytes_mut()) };
        let drawn = run.sim.frame(self.number, &mut buf).map(|_| ());
        *lease.bytes_mut() = buf.rgb;
        drawn?;
        let mut frame = Frame::owned(run.format, lease, captured)?;
        frame.sequence = self.number;
        self.number += 1;
        Ok(Next::Frame(frame))
    }

    fn close(&mut self) {
        self.opened = None;
    }
}
