//! Triangle meshes, built anew each frame from a few smooth primitives.
//!
//! Local axes of every object: x to its right, y up, z forward; metres. Winding never matters to a caller: each
//! primitive turns its faces away from its own inside.

use super::maths::{V3, cos_turns, sin_turns, v3};

/// The most triangles of one mesh: triangle ids share a word with the depth in the rasteriser.
pub(super) const MAX_TRIS: usize = 8000;

/// A surface: linear colour, mirror reflection at normal incidence, light of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Material {
    pub(super) rgb: V3,
    pub(super) gloss: f32,
    pub(super) emit: f32,
}

/// Index of a material in its mesh.
pub(super) type Mat = u16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Vert {
    pub(super) p: V3,
    pub(super) n: V3,
    pub(super) mat: Mat,
}

/// A lamp that dazzles in the dark.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glow {
    pub(super) at: V3,
    /// Where it shines.
    pub(super) dir: V3,
    pub(super) rgb: V3,
    /// Radius of the halo in metres.
    pub(super) radius: f32,
}

/// A frame of reference: columns of the rotation (or mirror) and the origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Xf {
    pub(super) x: V3,
    pub(super) y: V3,
    pub(super) z: V3,
    pub(super) t: V3,
}

impl Xf {
    pub(super) const ID: Xf =
        Xf { x: v3(1.0, 0.0, 0.0), y: v3(0.0, 1.0, 0.0), z: v3(0.0, 0.0, 1.0), t: v3(0.0, 0.0, 0.0) };

    /// At `t`, turned about the vertical so that forward points along `heading` turns (0 is +z, 0.25 is +x).
    pub(super) fn pose(t: V3, heading: f32) -> Xf {
        let (s, c) = (sin_turns(heading), cos_turns(heading));
        Xf { x: v3(c, 0.0, -s), y: v3(0.0, 1.0, 0.0), z: v3(s, 0.0, c), t }
    }

    pub(super) fn dir(&self, v: V3) -> V3 {
        self.x * v.x + self.y * v.y + self.z * v.z
    }

    pub(super) fn point(&self, v: V3) -> V3 {
        self.dir(v) + self.t
    }
}

/// What a drawing fills: vertices in world coordinates, triangles, materials and lamps.
#[derive(Clone, Debug)]
pub(super) struct Mesh {
    pub(super) verts: Vec<Vert>,
    pub(super) tris: Vec<[u32; 3]>,
    pub(super) mats: Vec<Material>,
    pub(super) glows: Vec<Glow>,
    /// The frame in which primitives are given.
    pub(super) xf: Xf,
    /// Segments of a round thing, chosen by the size on screen.
    pub(super) segs: usize,
    points: Vec<V3>,
    normals: Vec<V3>,
    centres: Vec<V3>,
}

impl Mesh {
    pub(super) fn new() -> Mesh {
        Mesh {
            verts: Vec::with_capacity(16_384),
            tris: Vec::with_capacity(MAX_TRIS),
            mats: Vec::with_capacity(64),
            glows: Vec::with_capacity(16),
            xf: Xf::ID,
            segs: 10,
            points: Vec::with_capacity(1024),
            normals: Vec::with_capacity(1024),
            centres: Vec::with_capacity(64),
        }
    }

    /// Empties the mesh and places what follows at `xf`.
    pub(super) fn start(&mut self, xf: Xf, segs: usize) {
        self.verts.clear();
        self.tris.clear();
        self.mats.clear();
        self.glows.clear();
        self.xf = xf;
        self.segs = segs;
    }

    /// Registers a matt (gloss 0) to shiny (gloss 1) surface of an 8-bit colour.
    pub(super) fn mat(&mut self, rgb: [u8; 3], gloss: f32) -> Mat {
        self.lit_mat(rgb, gloss, 0.0)
    }

    /// As [`Mesh::mat`], with light of its own.
    pub(super) fn lit_mat(&mut self, rgb: [u8; 3], gloss: f32, emit: f32) -> Mat {
        self.mats.push(Material { rgb: linear(rgb), gloss, emit });
        (self.mats.len() - 1) as Mat
    }

    fn vert(&mut self, p: V3, n: V3, mat: Mat) -> u32 {
        self.verts.push(Vert { p, n, mat });
        (self.verts.len() - 1) as u32
    }

    fn tri(&mut self, a: u32, b: u32, c: u32) {
        if self.tris.len() < MAX_TRIS {
            self.tris.push([a, b, c]);
        }
    }

    /// A lamp at local `at` shining along local `dir`.
    pub(super) fn glow(&mut self, at: V3, dir: V3, rgb: [u8; 3], radius: f32) {
        let (at, dir) = (self.xf.point(at), self.xf.dir(dir));
        self.glows.push(Glow { at, dir, rgb: linear(rgb), radius });
    }

    /// A smooth surface through `rows` rings of `cols` points, closed around when `closed`; `mat` gives the material of
    /// the patch between rows i, i+1 and columns j, j+1, or `None` for a hole.
    pub(super) fn patches(
        &mut self,
        (rows, cols): (usize, usize),
        closed: bool,
        mat: impl Fn(usize, usize) -> Option<Mat>,
        f: impl Fn(usize, usize) -> V3,
    ) {
        self.points.clear();
        self.normals.clear();
        self.centres.clear();
        for i in 0..rows {
            let mut sum = V3::default();
            for j in 0..cols {
                let p = self.xf.point(f(i, j));
                sum = sum + p;
                self.points.push(p);
                self.normals.push(V3::default());
            }
            self.centres.push(sum * (1.0 / cols as f32));
        }
        let patches = if closed { cols } else { cols - 1 };
        let corners = |i: usize, j: usize| {
            let k = (j + 1) % cols;
            [i * cols + j, i * cols + k, (i + 1) * cols + k, (i + 1) * cols + j]
        };
        // Which way the faces look is one property of the whole surface; a majority is robust to pinched rings.
        let mut outward = 0.0;
        for i in 0..rows - 1 {
            let inside = (self.centres[i] + self.centres[i + 1]) * 0.5;
            for j in 0..patches {
                let q = corners(i, j);
                let p = q.map(|k| self.points[k]);
                let n = (p[2] - p[0]).cross(p[3] - p[1]);
                outward += n.dot((p[0] + p[1] + p[2] + p[3]) * 0.25 - inside);
                for k in q {
                    self.normals[k] = self.normals[k] + n;
                }
            }
        }
        let flip = outward < 0.0;
        let base = self.verts.len() as u32;
        let single = mat(0, 0).filter(|m| (0..rows - 1).all(|i| (0..patches).all(|j| mat(i, j) == Some(*m))));
        if let Some(m) = single {
            for k in 0..self.points.len() {
                let n = if flip { self.normals[k] * -1.0 } else { self.normals[k] };
                self.vert(self.points[k], n.unit(), m);
            }
        }
        for i in 0..rows - 1 {
            for j in 0..patches {
                let q = corners(i, j);
                let v = match (single, mat(i, j)) {
                    (_, None) => continue,
                    (Some(_), _) => q.map(|k| base + k as u32),
                    (None, Some(m)) => q.map(|k| {
                        let n = if flip { self.normals[k] * -1.0 } else { self.normals[k] };
                        self.vert(self.points[k], n.unit(), m)
                    }),
                };
                if flip {
                    self.tri(v[0], v[2], v[1]);
                    self.tri(v[0], v[3], v[2]);
                } else {
                    self.tri(v[0], v[1], v[2]);
                    self.tri(v[0], v[2], v[3]);
                }
            }
        }
    }

    /// [`Mesh::patches`] of one material.
    pub(super) fn grid(
        &mut self,
        size: (usize, usize),
        closed: bool,
        mat: Mat,
        f: impl Fn(usize, usize) -> V3,
    ) {
        self.patches(size, closed, |_, _| Some(mat), f);
    }

    /// [`Mesh::grid`] of a thin sheet, seen from both sides.
    pub(super) fn sheet(
        &mut self,
        size: (usize, usize),
        closed: bool,
        mat: Mat,
        f: impl Fn(usize, usize) -> V3,
    ) {
        let from = self.tris.len();
        self.grid(size, closed, mat, f);
        for k in from..self.tris.len() {
            let t = self.tris[k];
            self.tri(t[0], t[2], t[1]);
        }
    }

    /// A flat convex polygon that looks along local `out`.
    pub(super) fn face(&mut self, corners: &[V3], out: V3, mat: Mat) {
        let base = self.verts.len() as u32;
        let out = self.xf.dir(out);
        let p = |m: &Mesh, k: usize| m.verts[(base as usize) + k].p;
        for c in corners {
            let at = self.xf.point(*c);
            self.vert(at, V3::default(), mat);
        }
        let (a, b) = (p(self, 1) - p(self, 0), p(self, corners.len() - 1) - p(self, 0));
        let mut n = a.cross(b).unit();
        let flip = n.dot(out) < 0.0;
        if flip {
            n = n * -1.0;
        }
        for k in 0..corners.len() {
            self.verts[base as usize + k].n = n;
        }
        for k in 1..corners.len() as u32 - 1 {
            let (b, c) = if flip { (k + 1, k) } else { (k, k + 1) };
            self.tri(base, base + b, base + c);
        }
    }

    /// A flat polygon seen from both sides.
    pub(super) fn leaf(&mut self, corners: &[V3], out: V3, mat: Mat) {
        self.face(corners, out, mat);
        self.face(corners, out * -1.0, mat);
    }

    /// A rectangle across x (half-width) and y at depth `z`, looking along +z (or -z when `back`).
    pub(super) fn plate(&mut self, x: (f32, f32), y: (f32, f32), z: f32, back: bool, mat: Mat) {
        let out = v3(0.0, 0.0, if back { -1.0 } else { 1.0 });
        self.face(&[v3(x.0, y.0, z), v3(x.1, y.0, z), v3(x.1, y.1, z), v3(x.0, y.1, z)], out, mat);
    }

    /// A rectangle along z and y at `x`, looking away from x = 0.
    pub(super) fn side_plate(&mut self, z: (f32, f32), y: (f32, f32), x: f32, mat: Mat) {
        self.face(
            &[v3(x, y.0, z.0), v3(x, y.0, z.1), v3(x, y.1, z.1), v3(x, y.1, z.0)],
            v3(x, 0.0, 0.0),
            mat,
        );
    }

    /// A box from `lo` to `hi`, with all six sides flat.
    pub(super) fn cuboid(&mut self, lo: V3, hi: V3, mat: Mat) {
        let c = |i: usize| {
            v3(
                if i & 1 == 0 { lo.x } else { hi.x },
                if i & 2 == 0 { lo.y } else { hi.y },
                if i & 4 == 0 { lo.z } else { hi.z },
            )
        };
        let sides: [([usize; 4], V3); 6] = [
            ([0, 2, 6, 4], v3(-1.0, 0.0, 0.0)),
            ([1, 3, 7, 5], v3(1.0, 0.0, 0.0)),
            ([0, 1, 5, 4], v3(0.0, -1.0, 0.0)),
            ([2, 3, 7, 6], v3(0.0, 1.0, 0.0)),
            ([0, 1, 3, 2], v3(0.0, 0.0, -1.0)),
            ([4, 5, 7, 6], v3(0.0, 0.0, 1.0)),
        ];
        for (k, out) in sides {
            self.face(&[c(k[0]), c(k[1]), c(k[2]), c(k[3])], out, mat);
        }
    }

    /// A round limb from `a` (radius `ra`) to `b` (radius `rb`) with rounded ends.
    pub(super) fn limb(&mut self, a: V3, b: V3, ra: f32, rb: f32, mat: Mat) {
        let axis = (b - a).unit();
        let side = if axis.y.abs() > 0.9 { v3(1.0, 0.0, 0.0) } else { v3(0.0, 1.0, 0.0) };
        let u = axis.cross(side).unit();
        let w = axis.cross(u);
        let segs = self.segs.clamp(5, 10);
        // Rows: (position along the axis in radii beyond an end, fraction of the radius).
        let rows =
            [(0, -0.9, 0.35), (0, -0.5, 0.85), (0, 0.0, 1.0), (1, 0.0, 1.0), (1, 0.5, 0.85), (1, 0.9, 0.35)];
        self.grid((rows.len(), segs), true, mat, |i, j| {
            let (end, along, k) = rows[i];
            let (c, r) = if end == 0 { (a, ra) } else { (b, rb) };
            let t = j as f32 / segs as f32;
            c + axis * (along * r) + (u * cos_turns(t) + w * sin_turns(t)) * (k * r)
        });
    }

    /// A tube with flat ends.
    pub(super) fn tube(&mut self, a: V3, b: V3, r: f32, segs: usize, mat: Mat) {
        let axis = (b - a).unit();
        let side = if axis.y.abs() > 0.9 { v3(1.0, 0.0, 0.0) } else { v3(0.0, 1.0, 0.0) };
        let u = axis.cross(side).unit();
        let w = axis.cross(u);
        let segs = segs.clamp(3, 16);
        let mut ends = [[V3::default(); 16]; 2];
        for (c, end) in [a, b].into_iter().zip(&mut ends) {
            for (j, p) in end[..segs].iter_mut().enumerate() {
                let t = j as f32 / segs as f32;
                *p = c + (u * cos_turns(t) + w * sin_turns(t)) * r;
            }
        }
        self.grid((2, segs), true, mat, |i, j| ends[i][j]);
        self.face(&ends[0][..segs], axis * -1.0, mat);
        self.face(&ends[1][..segs], axis, mat);
    }

    /// An ellipsoid with half-axes `r`.
    pub(super) fn ball(&mut self, c: V3, r: V3, mat: Mat) {
        self.dome(c, r, (-0.24, 0.24), mat);
    }

    /// A small ellipsoid, coarse at every distance.
    pub(super) fn bead(&mut self, c: V3, r: V3, mat: Mat) {
        let segs = std::mem::replace(&mut self.segs, 6);
        self.ball(c, r, mat);
        self.segs = segs;
    }

    /// The part of an ellipsoid between two latitudes, in turns from the equator (-0.25 is the south pole).
    pub(super) fn dome(&mut self, c: V3, r: V3, latitude: (f32, f32), mat: Mat) {
        let cols = self.segs.max(6);
        let rows = (cols * 2 / 3).max(4);
        self.grid((rows, cols), true, mat, |i, j| {
            let lat = latitude.0 + (latitude.1 - latitude.0) * i as f32 / (rows - 1) as f32;
            let (t, k) = (j as f32 / cols as f32, cos_turns(lat));
            v3(c.x + r.x * k * cos_turns(t), c.y + r.y * sin_turns(lat), c.z + r.z * k * sin_turns(t))
        });
    }

    /// A disc in the plane across local x, looking along `out` (+1 or -1), as wedges of alternating materials turned by
    /// `turn`.
    pub(super) fn wheel_disc(
        &mut self,
        c: V3,
        radius: f32,
        out: f32,
        turn: f32,
        wedges: usize,
        mats: [Mat; 2],
    ) {
        for k in 0..wedges {
            let (a, b) = (turn + k as f32 / wedges as f32, turn + (k + 1) as f32 / wedges as f32);
            let at = |t: f32| c + v3(0.0, radius * sin_turns(t), radius * cos_turns(t));
            self.face(&[c, at(a), at((a + b) * 0.5), at(b)], v3(out, 0.0, 0.0), mats[k % 2]);
        }
    }

    /// A ring-shaped tube of `rows` x `cols` points, closed both ways; `f` gives the point and the tube's middle there.
    pub(super) fn ring_tube(
        &mut self,
        (rows, cols): (usize, usize),
        mat: Mat,
        f: impl Fn(usize, usize) -> (V3, V3),
    ) {
        let base = self.verts.len() as u32;
        for i in 0..rows {
            for j in 0..cols {
                let (p, middle) = f(i, j);
                let (p, middle) = (self.xf.point(p), self.xf.point(middle));
                self.vert(p, (p - middle).unit(), mat);
            }
        }
        for i in 0..rows {
            for j in 0..cols {
                let at = |i: usize, j: usize| base + ((i % rows) * cols + j % cols) as u32;
                let q = [at(i, j), at(i, j + 1), at(i + 1, j + 1), at(i + 1, j)];
                let p = q.map(|k| self.verts[k as usize]);
                let n = (p[2].p - p[0].p).cross(p[3].p - p[1].p);
                if n.dot(p[0].n) < 0.0 {
                    self.tri(q[0], q[2], q[1]);
                    self.tri(q[0], q[3], q[2]);
                } else {
                    self.tri(q[0], q[1], q[2]);
                    self.tri(q[0], q[2], q[3]);
                }
            }
        }
    }

    /// A leaf seen from both sides, shaded as part of a crown whose surface looks along `out`.
    pub(super) fn blade(&mut self, corners: [V3; 4], out: V3, mat: Mat) {
        let n = self.xf.dir(out);
        let v = corners.map(|c| {
            let p = self.xf.point(c);
            self.vert(p, n, mat)
        });
        self.tri(v[0], v[1], v[2]);
        self.tri(v[0], v[2], v[3]);
        self.tri(v[0], v[2], v[1]);
        self.tri(v[0], v[3], v[2]);
    }

    /// A disc facing local +z or -z.
    pub(super) fn disc(&mut self, c: V3, radius: f32, out: f32, segs: usize, mat: Mat) {
        let mut p = [V3::default(); 24];
        let n = segs.clamp(3, 24);
        for (k, q) in p[..n].iter_mut().enumerate() {
            // Half a step of turn: an octagon stands on a side, as the stop sign does.
            let t = (k as f32 + 0.5) / n as f32;
            *q = c + v3(radius * cos_turns(t), radius * sin_turns(t), 0.0);
        }
        self.face(&p[..n], v3(0.0, 0.0, out), mat);
    }
}

/// Linear light of an 8-bit colour, with gamma 2.
pub(super) fn linear(rgb: [u8; 3]) -> V3 {
    let f = |c: u8| {
        let u = f32::from(c) * (1.0 / 255.0);
        u * u
    };
    v3(f(rgb[0]), f(rgb[1]), f(rgb[2]))
}
