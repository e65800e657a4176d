//! Bilinear resize of 8-bit pictures, by the arithmetic of OpenCV's `INTER_LINEAR` (found out by experiment).
//!
//! Sample positions are pixel centres: `s = (d + 0.5) * source / target - 0.5`, computed in f64 and rounded to f32.
//! Weights have 11 bits. A row is first filtered horizontally, kept to 15 bits (`>> 4`), then two rows are blended with
//! products cut to 16 bits, and the sum is rounded by 2 bits. No antialiasing: shrinking by more than two skips pixels,
//! which is what the models were trained with.

/// Where one output sample comes from: two neighbouring source samples and their weights, which add up to 2048.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tap {
    /// The first sample; the second is the next one, or the same if the source has only one.
    pub(crate) at: u32,
    pub(crate) w0: i16,
    pub(crate) w1: i16,
}

const ONE: f32 = 2048.0;

/// The taps of samples `skip..skip + count` of an axis scaled from `source` to `target` samples, into `taps`.
pub(crate) fn axis(source: usize, target: usize, skip: usize, count: usize, taps: &mut Vec<Tap>) {
    taps.clear();
    let step = 1.0 / (target as f64 / source as f64);
    let last = source - 1;
    for d in skip..skip + count {
        let position = ((d as f64 + 0.5) * step - 0.5) as f32;
        let floor = position.floor();
        let fraction = position - floor;
        let tap = if floor < 0.0 {
            Tap { at: 0, w0: 2048, w1: 0 }
        } else if floor as usize >= last {
            // Both samples of a pair are always inside, so the last one is reached as the second of its pair.
            if last == 0 {
                Tap { at: 0, w0: 2048, w1: 0 }
            } else {
                Tap { at: last as u32 - 1, w0: 0, w1: 2048 }
            }
        } else {
            Tap {
                at: floor as u32,
                w0: ((1.0 - fraction) * ONE).round_ties_even() as i16,
                w1: (fraction * ONE).round_ties_even() as i16,
            }
        };
        taps.push(tap);
    }
}

/// Filters one source row of `BPP` bytes a pixel into three planes of `taps.len()` samples, 15 bits each.
/// `channel[p]` is the byte inside a pixel that plane `p` takes.
pub(crate) fn horizontal<const BPP: usize>(
    row: &[u8],
    taps: &[Tap],
    channel: [usize; 3],
    planes: &mut [i16],
) {
    let n = taps.len();
    let (first, rest) = planes.split_at_mut(n);
    let (second, third) = rest.split_at_mut(n);
    let third = &mut third[..n];
    // The second pixel of the pair of a one-pixel row is the row itself.
    let next = if row.len() == BPP { 0 } else { BPP };
    if BPP == 1 {
        for (tap, out) in taps.iter().zip(first.iter_mut()) {
            let i = tap.at as usize;
            let (a, b) = (i32::from(row[i]), i32::from(row[i + next]));
            *out = ((a * i32::from(tap.w0) + b * i32::from(tap.w1)) >> 4) as i16;
        }
        second.copy_from_slice(first);
        third.copy_from_slice(first);
        return;
    }
    let channel = channel.map(|c| c.min(BPP - 1));
    for (((tap, o0), o1), o2) in taps.iter().zip(first).zip(second).zip(third) {
        let i = tap.at as usize * BPP;
        let (w0, w1) = (i32::from(tap.w0), i32::from(tap.w1));
        let pair = &row[i..i + next + BPP];
        let mix = |c: usize| ((i32::from(pair[c]) * w0 + i32::from(pair[c + next]) * w1) >> 4) as i16;
        *o0 = mix(channel[0]);
        *o1 = mix(channel[1]);
        *o2 = mix(channel[2]);
    }
}

/// As [`horizontal`], for a source row that is three planes already, one behind the other.
pub(crate) fn horizontal_planes(row: &[u8], taps: &[Tap], channel: [usize; 3], planes: &mut [i16]) {
    let width = row.len() / 3;
    // The second sample of the pair of a one-pixel row is the row itself.
    let next = usize::from(width > 1);
    for (source, out) in channel.iter().zip(planes.chunks_exact_mut(taps.len().max(1))) {
        let plane = &row[source * width..][..width];
        for (tap, o) in taps.iter().zip(out) {
            let i = tap.at as usize;
            let pair = &plane[i..=i + next];
            let (a, b) = (i32::from(pair[0]), i32::from(pair[next]));
            *o = ((a * i32::from(tap.w0) + b * i32::from(tap.w1)) >> 4) as i16;
        }
    }
}

/// Blends two filtered rows into bytes.
pub(crate) fn vertical(above: &[i16], below: &[i16], w0: i16, w1: i16, out: &mut [u8]) {
    for ((&a, &b), o) in above.iter().zip(below).zip(out) {
        let a = ((i32::from(a) * i32::from(w0)) >> 16) as i16;
        let b = ((i32::from(b) * i32::from(w1)) >> 16) as i16;
        // At most (1020 + 2) >> 2 = 255: no saturation is needed.
        *o = ((a + b + 2) >> 2) as u8;
    }
}
