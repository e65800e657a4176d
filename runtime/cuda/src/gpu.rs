//! A device in use: its kernels, its constants, where inputs go.

use crate::driver::{Device, DeviceBuffer, Event, HostBuffer, HostKind, Stream};
use crate::kernels::Kernels;
use crate::placement::{MemoryMode, Placement};
use crate::weights::Weights;
use crate::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// An open device.
pub(crate) struct Gpu {
    pub(crate) device: Arc<Device>,
    /// Compute capability that kernels are taken for: the device's, or an older one.
    pub(crate) arch: u32,
    pub(crate) kernels: Kernels,
    pub(crate) placement: Placement,
    uploading: Mutex<()>,
}

/// The compute capability that `SALTICA_CUDA_ARCH` names, if it does: kernels of older devices run on newer ones, which is how
/// they are tested.
fn older_arch(device: u32) -> Result<u32> {
    let Some(text) = std::env::var_os("SALTICA_CUDA_ARCH") else { return Ok(device) };
    let named = text.to_str().and_then(|t| t.parse().ok());
    named.filter(|arch| (72..=device).contains(arch)).ok_or_else(|| {
        Error::new(
            ErrorKind::Kernels,
            format!("SALTICA_CUDA_ARCH is {text:?}, a compute capability from 72 to {device}, this device's, expected"),
        )
    })
}

/// Bytes of page-locked memory that constants pass through: two halves, one filled while the other is copied.
const RING: usize = 4 << 20;

impl Gpu {
    pub(crate) fn open(number: usize, memory: MemoryMode) -> Result<Gpu> {
        let device = Device::open(number)?;
        let placement = Placement::choose(device.attributes(), memory);
        let arch = older_arch(device.attributes().arch())?;
        let kernels = Kernels::new(device.clone(), arch);
        Ok(Gpu { kernels, arch, device, placement, uploading: Mutex::default() })
    }

    /// Puts those of the blocks on the device that are not there yet: one allocation for all, filled through a small ring, so
    /// that no second copy of the model's constants is ever in host memory.
    pub(crate) fn upload(&self, weights: &[Arc<Weights>], stream: &Stream) -> Result<()> {
        const ALIGN: usize = 256;
        let _one_at_a_time = self.uploading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new: Vec<(&Arc<Weights>, usize)> = Vec::new();
        let mut total = 0;
        for w in weights {
            if w.len() > 0 && w.address().is_none() && !new.iter().any(|(known, _)| Arc::ptr_eq(known, w)) {
                new.push((w, total));
                total += w.len().next_multiple_of(ALIGN);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let buffer = Arc::new(DeviceBuffer::new(&self.device, total)?);
        let mut ring = Ring {
            halves: [0, 1]
                .map(|_| HostBuffer::new(&self.device, HostKind::Pinned, RING / 2))
                .into_iter()
                .collect::<Result<_>>()?,
            passed: [0, 1].map(|_| Event::new(&self.device)).into_iter().collect::<Result<_>>()?,
            turn: 0,
            filled: 0,
            begins: 0,
        };
        for (w, offset) in &new {
            let (rows, row) = w.rows();
            let most = (RING / 2 / row.max(1)).max(1);
            if row > RING / 2 {
                return Err(Error::new(ErrorKind::Memory, format!("a row of constants of {row} bytes")));
            }
            let mut first = 0;
            while first < rows {
                let room = (RING / 2 - ring.filled) / row;
                if room == 0 {
                    ring.flush(&buffer, stream)?;
                    continue;
                }
                let n = room.min(most).min(rows - first);
                let at = offset + first * row;
                // Blocks follow each other with gaps of less than the alignment: a half is one copy.
                if ring.filled == 0 {
                    ring.begins = at;
                } else if at != ring.begins + ring.filled {
                    let gap = at - ring.begins - ring.filled;
                    if ring.filled + gap + n * row > RING / 2 {
                        ring.flush(&buffer, stream)?;
                        continue;
                    }
                    ring.filled += gap;
                }
                let (turn, filled) = (ring.turn, ring.filled);
                w.write(first, &mut ring.halves[turn].bytes_mut()[filled..filled + n * row]);
                ring.filled += n * row;
                first += n;
            }
        }
        ring.flush(&buffer, stream)?;
        stream.synchronize()?;
        for (w, offset) in new {
            w.put_at(buffer.clone(), offset);
        }
        Ok(())
    }
}

/// Two halves of page-locked memory on their way to the device.
struct Ring {
    halves: Vec<HostBuffer>,
    passed: Vec<Event>,
    /// The half being filled, how much of it is, and where on the device it goes.
    turn: usize,
    filled: usize,
    begins: usize,
}

impl Ring {
    fn flush(&mut self, buffer: &DeviceBuffer, stream: &Stream) -> Result<()> {
        if self.filled > 0 {
            buffer.upload(self.begins, &self.halves[self.turn], 0, self.filled, stream)?;
            self.passed[self.turn].record(stream)?;
            self.turn = 1 - self.turn;
            self.filled = 0;
            // An event that was never recorded has passed.
            self.passed[self.turn].synchronize()?;
        }
        Ok(())
    }
}
