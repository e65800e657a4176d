//! One frame from start to end.

use std::sync::Arc;

use super::camera::Camera;
use super::effects::{self, Noise, Sheet};
use super::index;
use super::kept::Kept;
use super::layers::Layers;
use super::maths::{V3, lerp, mix, v3};
use super::mesh::{Mesh, Xf};
use super::order::{self, Ground};
use super::raster::{Coverage, Rect, Row, Tile};
use super::scene::{self, Occluder, Scene};
use super::shadow::{Floor, Shadow};
use super::spec::{LightKind, SimSpec};
use super::truth::{Class, PixelBox, Truth, TruthObject};
use super::world::{self, Actor};
use crate::Result;

/// A picture in memory: packed 8-bit RGB, `width * height * 3` bytes, rows from the top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameBuf {
    /// Pixels of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Red, green, blue of each pixel.
    pub rgb: Vec<u8>,
}

/// The simulated camera. Cloning it shares the scene and gives the clone working memory of its own.
#[derive(Clone, Debug)]
pub struct Sim {
    spec: SimSpec,
    scene: Arc<Scene>,
    noise: Arc<Noise>,
    truth: Truth,
    actors: Vec<Actor>,
    later: Vec<Actor>,
    drawn: Vec<Drawn>,
    meshes: Vec<Mesh>,
    tile: Tile,
    shadow: Shadow,
    layers: Layers,
    grounds: Vec<Ground>,
    degree: Vec<u32>,
    order: Vec<u32>,
    /// Props that stand before the object at hand.
    screens: Vec<u32>,
    sheet: Sheet,
    /// Pictures of the objects that stand still, in the street's order; none before a camera that shakes.
    kept: Vec<Kept>,
}

/// An actor in view, on its way into the picture.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    actor: Actor,
    /// Its place among all actors, of which those that stand still come first.
    place: usize,
    pose: Xf,
    second: usize,
    depth: f32,
    velocity: (f32, f32),
    truncation: f32,
    /// Coverage of the whole or of bicycle and rider.
    cover: [Coverage; 2],
}

impl Sim {
    /// Prepares a scene: lays out the street and draws its backdrop on all cores (tenths of a second at 1280x720, seconds
    /// at 7680x4320).
    ///
    /// # Errors
    /// [`ErrorKind::Value`](crate::ErrorKind::Value) when a value of `spec` is out of range.
    pub fn open(spec: &SimSpec) -> Result<Sim> {
        spec.check()?;
        let scene = Scene::new(spec);
        let n = spec.object_count() as usize;
        let (w, h) = (spec.width, spec.height);
        let mut sim = Sim {
            spec: spec.clone(),
            scene: Arc::new(scene),
            noise: Arc::new(Noise::new(spec.noise, w * 3)),
            truth: Truth::default(),
            actors: Vec::with_capacity(n + 8),
            later: Vec::with_capacity(n + 8),
            drawn: Vec::with_capacity(n + 8),
            meshes: (0..n + 1).map(|_| Mesh::new()).collect(),
            tile: Tile::new(),
            shadow: Shadow::default(),
            layers: Layers::new(w, h),
            grounds: Vec::with_capacity(n + 8),
            degree: Vec::with_capacity(n + 8),
            order: Vec::with_capacity(n + 8),
            screens: Vec::new(),
            sheet: Sheet::default(),
            kept: Vec::new(),
        };
        if spec.shake == 0 {
            sim.kept.resize(sim.scene.street.still.len(), Kept::default());
        }
        sim.screens.reserve(sim.scene.occluders.len());
        if spec.blur > 0.0 {
            sim.sheet.reserve(w, h);
        }
        sim.truth.objects.reserve(2 * n + 8);
        sim.tile.reserve(w, h);
        sim.shadow.reserve(w, h);
        Ok(sim)
    }

    /// What is simulated.
    pub fn spec(&self) -> &SimSpec {
        &self.spec
    }

    /// Draws frame `n` into `buf`, which takes the size of the specification, and returns its truth. After the first
    /// call nothing is allocated (unless `jpeg` is on, whose codec allocates).
    ///
    /// # Errors
    /// [`ErrorKind::Image`](crate::ErrorKind::Image) when the JPEG codec fails, which its input gives no reason for.
    pub fn frame(&mut self, n: u64, buf: &mut FrameBuf) -> Result<&Truth> {
        let (w, h) = (self.spec.width, self.spec.height);
        buf.width = w;
        buf.height = h;
        buf.rgb.resize(w * h * 3, 0);
        let scene = Arc::clone(&self.scene);
        let (dx, dy) = self.shake(n);
        let camera = scene.street.camera.shifted(dx, dy);
        let origin = self.copy_backdrop(&scene, dx, dy, &mut buf.rgb);
        self.gather(&scene, &camera, n);
        let frame = Rect { x0: 0, y0: 0, x1: w as i32, y1: h as i32 };
        self.grounds.clear();
        self.grounds.extend(self.drawn.iter().map(|d| Ground::of(&d.pose, d.actor.footprint)));
        order::back_to_front(&self.grounds, camera.pos, &mut self.degree, &mut self.order);
        self.layers.start();
        for k in (0..self.order.len()).rev() {
            let id = self.order[k] as usize;
            self.draw(&scene, &camera, &frame, id, (dx, dy), origin, &mut buf.rgb);
        }
        let mut floor = Floor {
            rgb: &mut buf.rgb,
            width: w,
            full: &self.layers.full,
            height: h,
            ground: &scene.backdrop.ground,
            stride: scene.backdrop.width,
            origin,
        };
        for (d, mesh) in self.drawn.iter().zip(&self.meshes) {
            if d.actor.pos.y == 0.0 {
                let f = d.actor.footprint;
                let f = match d.actor.class {
                    Class::Person => (f.0 * 0.75, f.1 * 0.75),
                    Class::Bicycle => (f.0 * 0.35, f.1 * 0.9),
                    _ => f,
                };
                scene::shadows(
                    &mut self.shadow,
                    &mut floor,
                    mesh,
                    &d.pose,
                    f,
                    &camera,
                    &scene.light,
                    &scene.street,
                );
            }
        }
        if scene.light.kind == LightKind::Night {
            for d in
                self.drawn.iter().filter(|d| matches!(d.actor.class, Class::Car | Class::Bus | Class::Truck))
            {
                self.shadow.beam(&mut floor, &d.pose, d.actor.footprint.1, &camera);
            }
        }
        self.layers.blend(&mut buf.rgb);
        if scene.light.lamps_on() {
            self.halos(&scene, &camera, &frame, origin, &mut buf.rgb);
        }
        if self.spec.rain {
            effects::rain(&mut buf.rgb, w, h, mix(self.spec.seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        }
        self.noise.apply(&mut buf.rgb, w * 3, mix(self.spec.seed) ^ mix(n));
        if self.spec.index {
            index::write(&mut buf.rgb, w, n);
            for row in self.layers.owner.chunks_exact_mut(w).take(index::INDEX_SIZE.1) {
                row[..index::INDEX_SIZE.0].fill(0);
            }
        }
        if let Some(q) = self.spec.jpeg {
            effects::jpeg(&mut buf.rgb, w, h, q)?;
        }
        self.tell(n);
        Ok(&self.truth)
    }

    /// Displacement of the picture at frame `n`: smooth noise over about a third of a second.
    fn shake(&self, n: u64) -> (i32, i32) {
        if self.spec.shake == 0 {
            return (0, 0);
        }
        let period = u64::from(self.spec.fps.div_ceil(4).max(1));
        let (cell, t) = (n / period, (n % period) as f32 / period as f32);
        let t = t * t * (3.0 - 2.0 * t);
        let at = |c: u64, axis: u64| (mix(self.spec.seed ^ c << 8 ^ axis) >> 40) as f32 / 8_388_608.0 - 1.0;
        let f = |axis: u64| (lerp(at(cell, axis), at(cell + 1, axis), t) * self.spec.shake as f32) as i32;
        (f(1), f(2))
    }

    /// Copies the backdrop; returns where the frame's first pixel lies in it.
    fn copy_backdrop(&self, scene: &Scene, dx: i32, dy: i32, rgb: &mut [u8]) -> usize {
        let b = &scene.backdrop;
        let (x, y) = ((b.margin as i32 - dx) as usize, (b.margin as i32 - dy) as usize);
        let w = self.spec.width;
        for (row, dst) in rgb.chunks_exact_mut(w * 3).enumerate() {
            let at = ((y + row) * b.width + x) * 3;
            dst.copy_from_slice(&b.rgb[at..at + w * 3]);
        }
        y * b.width + x
    }

    /// Finds who may be in view and builds the meshes.
    fn gather(&mut self, scene: &Scene, camera: &Camera, n: u64) {
        world::actors(&scene.street, self.spec.seed, n, self.spec.fps, &mut self.actors);
        world::actors(&scene.street, self.spec.seed, n + 1, self.spec.fps, &mut self.later);
        self.drawn.clear();
        for (place, (a, b)) in self.actors.iter().zip(&self.later).enumerate() {
            let middle = |a: &Actor| a.pos + v3(0.0, a.height * 0.5, 0.0);
            let v = camera.view(middle(a));
            let radius = (a.footprint.0 * a.footprint.0 + a.footprint.1 * a.footprint.1 + 3.0).sqrt();
            if v.z < -radius || !in_cone(camera, v, radius, self.spec.width as f32, self.spec.height as f32) {
                continue;
            }
            let velocity = if a.track == b.track {
                motion(camera, middle(a), middle(b), self.spec.fps)
            } else {
                (0.0, 0.0)
            };
            let size = camera.focal * a.height.max(1.0) / v.z.max(0.5);
            let segs = if size < 50.0 {
                6
            } else if size < 140.0 {
                8
            } else if size < 320.0 {
                10
            } else {
                14
            };
            let mesh = &mut self.meshes[self.drawn.len()];
            let (pose, second) = scene::build(mesh, a, scene.light.lamps_on(), segs);
            self.drawn.push(Drawn {
                actor: *a,
                place,
                pose,
                second,
                depth: v.z,
                velocity,
                truncation: 0.0,
                cover: [Coverage::default(); 2],
            });
        }
    }

    fn draw(
        &mut self,
        scene: &Scene,
        camera: &Camera,
        frame: &Rect,
        id: usize,
        shake: (i32, i32),
        origin: usize,
        rgb: &mut [u8],
    ) {
        let Sim { spec, drawn, meshes, tile, layers, grounds, screens, sheet, kept, .. } = self;
        let d = &mut drawn[id];
        let mesh = &meshes[id];
        let mut keep = kept.get_mut(d.place);
        if let Some(kept) = &mut keep {
            if kept.holds(d.actor.state) {
                // An open shutter does not smear what stands still.
                kept.rows().for_each(|row| layers.put(rgb, id, &row));
                (d.truncation, d.cover) = (kept.truncation, kept.cover);
                return;
            }
            kept.start(d.actor.state);
        }
        if !tile.place(mesh, camera, frame) {
            return;
        }
        let mut hiding = Hiding { scene, screens: &[], shake, depth: d.depth, origin };
        let blurred = spec.blur > 0.0 && keep.is_none();
        if !blurred && keep.is_none() && layers.hide(&tile.rect, |y, x| hiding.wall(y, x)) {
            return;
        }
        let reach = scene::reach(&scene.street, &scene.light, d.actor.pos);
        screens.clear();
        for (k, o) in scene.occluders.iter().enumerate() {
            if order::before(&o.ground, &grounds[id], camera.pos) {
                screens.push(k as u32);
            }
        }
        hiding.screens = screens;
        if blurred {
            sheet.start(tile.rect);
        }
        tile.draw(mesh, d.second, camera, &scene.light, reach, |mut row| {
            hiding.hide(&mut row);
            if let Some(kept) = &mut keep {
                kept.put(&row);
            }
            if blurred {
                sheet.put(&row);
            } else {
                layers.put(rgb, id, &row);
            }
        });
        d.truncation = tile.outside;
        if blurred {
            let k = spec.blur / spec.fps as f32;
            sheet.smear(d.velocity.0 * k, d.velocity.1 * k, frame);
            sheet.rows().for_each(|row| layers.put(rgb, id, &row));
        }
        d.cover = if d.second == usize::MAX {
            [tile.whole(), Coverage::default()]
        } else {
            [tile.cover(0), tile.cover(1)]
        };
        if let Some(kept) = keep {
            (kept.truncation, kept.cover) = (d.truncation, d.cover);
        }
    }

    fn halos(&self, scene: &Scene, camera: &Camera, frame: &Rect, origin: usize, rgb: &mut [u8]) {
        let w = self.spec.width;
        for (id, d) in self.drawn.iter().enumerate() {
            for g in &self.meshes[id].glows {
                effects::halo(rgb, frame, camera, g, |x, y, z| {
                    let o = self.layers.owner[y as usize * w + x as usize];
                    let own = o == 0 || usize::from((o - 1) / 2) == id;
                    let wall = scene.backdrop.depth[origin + y as usize * scene.backdrop.width + x as usize];
                    !own && self.drawn[usize::from((o - 1) / 2)].depth < d.depth || wall < z - 0.5
                });
            }
        }
    }

    /// Counts what is visible and writes the truth.
    fn tell(&mut self, n: u64) {
        self.truth.frame = n;
        self.truth.objects.clear();
        let w = self.spec.width;
        for &id in &self.order {
            let d = &self.drawn[id as usize];
            let parts = if d.second == usize::MAX { 1 } else { 2 };
            for part in 0..parts {
                let c = &d.cover[part];
                if c.pixels == 0 {
                    continue;
                }
                let me = (2 * id + part as u32 + 1) as u8;
                let Some((seen, pixels)) = visible(&self.layers.owner, w, c, me) else { continue };
                let class = if part == 1 { Class::Person } else { d.actor.class };
                let full = PixelBox { x0: c.extent[0], y0: c.extent[1], x1: c.extent[2], y1: c.extent[3] };
                // Where nothing hides an edge, the exact one is better than whole pixels.
                let near = |a: f32, b: f32| if (a - b).abs() <= 1.51 { b } else { a };
                let bbox = PixelBox {
                    x0: near(seen.x0, full.x0),
                    y0: near(seen.y0, full.y0),
                    x1: near(seen.x1, full.x1),
                    y1: near(seen.y1, full.y1),
                };
                let visibility = (pixels as f32 / c.pixels as f32).min(1.0);
                let tiny = bbox.width() < 4.0 || bbox.height() < 4.0 || bbox.area() < 32.0;
                self.truth.objects.push(TruthObject {
                    class,
                    bbox,
                    full,
                    visibility,
                    truncation: d.truncation,
                    track: 2 * d.actor.track + part as u64,
                    velocity: d.velocity,
                    ignore: visibility < 0.15 || d.truncation > 0.9 || tiny,
                });
            }
        }
    }
}

/// Whether a sphere can touch the picture.
fn in_cone(camera: &Camera, v: V3, radius: f32, w: f32, h: f32) -> bool {
    let (l, r) = (camera.centre.0 / camera.focal, (w - camera.centre.0) / camera.focal);
    let (t, b) = (camera.centre.1 / camera.focal, (h - camera.centre.1) / camera.focal);
    let side = |p: f32, k: f32| p - k * v.z <= radius * (1.0 + k * k).sqrt();
    side(v.x, r) && side(-v.x, l) && side(v.y, b) && side(-v.y, t)
}

/// Velocity in the picture between two places one frame apart, in pixels per second.
fn motion(camera: &Camera, a: V3, b: V3, fps: u32) -> (f32, f32) {
    let (va, vb) = (camera.view(a), camera.view(b));
    if va.z < 0.5 || vb.z < 0.5 {
        return (0.0, 0.0);
    }
    let (pa, pb) = (camera.pixel(va), camera.pixel(vb));
    ((pb.0 - pa.0) * fps as f32, (pb.1 - pa.1) * fps as f32)
}

/// What stands before an object: houses, and the props of `screens`.
struct Hiding<'a> {
    scene: &'a Scene,
    screens: &'a [u32],
    shake: (i32, i32),
    /// Distance of the object.
    depth: f32,
    /// The frame's first pixel in the backdrop.
    origin: usize,
}

impl Hiding<'_> {
    /// Whether a house hides a pixel.
    fn wall(&self, y: usize, x: usize) -> bool {
        let b = &self.scene.backdrop;
        let at = self.origin + y * b.width + x;
        b.depth[at] < self.limit() && b.ground[at] == 0
    }

    fn limit(&self) -> f32 {
        self.depth - 0.6
    }

    /// Takes out of a row what they hide.
    fn hide(&self, row: &mut Row<'_>) {
        let b = &self.scene.backdrop;
        let at = self.origin + row.y as usize * b.width + row.x as usize;
        let behind = &b.depth[at..at + row.rgba.len()];
        let limit = self.limit();
        if behind.iter().fold(0, |any, z| any | u32::from(*z < limit)) != 0 {
            for (i, z) in behind.iter().enumerate() {
                // The ground under an object's near side is nearer than its middle.
                if *z < limit && b.ground[at + i] == 0 {
                    row.rgba[i][3] = 0;
                    row.who[i] = 0;
                }
            }
        }
        for k in self.screens {
            self.screen(&self.scene.occluders[*k as usize], row);
        }
    }

    fn screen(&self, o: &Occluder, row: &mut Row<'_>) {
        let r = &o.rect;
        let (x, y) = (row.x - self.shake.0, row.y - self.shake.1);
        let (from, to) = (x.max(r.x0), (x + row.rgba.len() as i32).min(r.x1));
        if y < r.y0 || y >= r.y1 || from >= to {
            return;
        }
        let n = (to - from) as usize;
        let alpha = &o.alpha[(y - r.y0) as usize * r.width() + (from - r.x0) as usize..][..n];
        let at = (from - x) as usize;
        for ((a, c), p) in alpha.iter().zip(&mut row.rgba[at..]).zip(&mut row.who[at..]) {
            if *a != 0 {
                c[3] = (u32::from(c[3]) * (255 - u32::from(*a)) / 255) as u8;
                if *a >= 128 {
                    *p = 0;
                }
            }
        }
    }
}

/// Extent and number of the pixels that `me` owns.
fn visible(owner: &[u8], width: usize, c: &Coverage, me: u8) -> Option<(PixelBox, u32)> {
    let (x0, y0) = (c.extent[0] as usize, c.extent[1] as usize);
    let (x1, y1) = ((c.extent[2] + 0.99) as usize, (c.extent[3] + 0.99) as usize);
    let (x1, y1) = (x1.min(width), y1.min(owner.len() / width));
    let (mut lo, mut hi, mut top, mut bottom, mut pixels) = (usize::MAX, 0, usize::MAX, 0, 0u32);
    for y in y0..y1 {
        let row = &owner[y * width + x0..y * width + x1];
        // Bytes count sixteen pixels at a time.
        let n: u32 = row
            .chunks(128)
            .map(|part| u32::from(part.iter().fold(0u8, |n, o| n.wrapping_add(u8::from(*o == me)))))
            .sum();
        if n == 0 {
            continue;
        }
        pixels += n;
        top = top.min(y);
        bottom = y + 1;
        if let (Some(l), Some(r)) = (row.iter().position(|o| *o == me), row.iter().rposition(|o| *o == me)) {
            lo = lo.min(x0 + l);
            hi = hi.max(x0 + r + 1);
        }
    }
    (pixels > 0)
        .then_some((PixelBox { x0: lo as f32, y0: top as f32, x1: hi as f32, y1: bottom as f32 }, pixels))
}

#[cfg(test)]
#[path = "alone.rs"]
mod alone;
