//! Which object stands before which: back-to-front order by planes that separate their ground rectangles.

use super::maths::V3;
use super::mesh::Xf;

/// The ground rectangle an object takes, aligned with the street.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ground {
    lo: (f32, f32),
    hi: (f32, f32),
}

impl Ground {
    /// Of a footprint (half-width, half-length) under a pose.
    pub(super) fn of(pose: &Xf, footprint: (f32, f32)) -> Ground {
        let ex = pose.x.x.abs() * footprint.0 + pose.z.x.abs() * footprint.1;
        let ez = pose.x.z.abs() * footprint.0 + pose.z.z.abs() * footprint.1;
        Ground { lo: (pose.t.x - ex, pose.t.z - ez), hi: (pose.t.x + ex, pose.t.z + ez) }
    }

    fn distance(&self, eye: V3) -> f32 {
        let (x, z) = ((self.lo.0 + self.hi.0) * 0.5 - eye.x, (self.lo.1 + self.hi.1) * 0.5 - eye.z);
        x * x + z * z
    }
}

/// Whether `a` may hide part of `b` from `eye`. A line that separates the two with the eye on `a`'s side proves that
/// `b` cannot hide `a`; where none exists the distance decides.
pub(super) fn before(a: &Ground, b: &Ground, eye: V3) -> bool {
    let mut separated = false;
    let mut front = false;
    let mut back = false;
    for (alo, ahi, blo, bhi, e) in
        [(a.lo.0, a.hi.0, b.lo.0, b.hi.0, eye.x), (a.lo.1, a.hi.1, b.lo.1, b.hi.1, eye.z)]
    {
        if ahi <= blo {
            separated = true;
            front |= e < blo;
            back |= e > ahi;
        } else if bhi <= alo {
            separated = true;
            front |= e > bhi;
            back |= e < alo;
        }
    }
    if separated {
        front && (!back || a.distance(eye) < b.distance(eye))
    } else {
        a.distance(eye) < b.distance(eye)
    }
}

/// Writes a back-to-front order of `items` to `order`. `degree` is scratch.
pub(super) fn back_to_front(items: &[Ground], eye: V3, degree: &mut Vec<u32>, order: &mut Vec<u32>) {
    let n = items.len();
    degree.clear();
    degree.resize(n, 0);
    order.clear();
    // degree[a]: how many not yet drawn objects `a` must wait for, being before them.
    for a in 0..n {
        for b in 0..n {
            if a != b && before(&items[a], &items[b], eye) {
                degree[a] += 1;
            }
        }
    }
    for _ in 0..n {
        // Among those that wait for nobody the farthest; on a cycle (never with convex, disjoint ground) the least bound.
        let mut best: Option<usize> = None;
        for k in 0..n {
            if degree[k] == u32::MAX {
                continue;
            }
            best = Some(match best {
                None => k,
                Some(j) if degree[k] < degree[j] => k,
                Some(j) if degree[k] == degree[j] && items[k].distance(eye) > items[j].distance(eye) => k,
                Some(j) => j,
            });
        }
        let Some(k) = best else { return };
        degree[k] = u32::MAX;
        order.push(k as u32);
        for a in 0..n {
            if degree[a] != u32::MAX && degree[a] > 0 && before(&items[a], &items[k], eye) {
                degree[a] -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::maths::v3;
    use super::*;

    fn at(x: f32, z: f32, w: f32, l: f32) -> Ground {
        Ground { lo: (x - w, z - l), hi: (x + w, z + l) }
    }

    #[test]
    fn a_car_beside_a_long_bus_is_drawn_last() {
        let eye = v3(5.0, 2.0, 0.0);
        // The bus in the far lane reaches nearer to the eye along z than the car's middle.
        let (bus, car) = (at(-1.7, 9.0, 1.3, 5.5), at(1.7, 12.0, 0.9, 2.4));
        let (mut d, mut o) = (Vec::new(), Vec::new());
        back_to_front(&[car, bus], eye, &mut d, &mut o);
        assert_eq!(o, [1, 0]);
        back_to_front(&[bus, car, at(0.0, 40.0, 1.0, 1.0)], eye, &mut d, &mut o);
        assert_eq!(o, [2, 0, 1]);
    }
}
