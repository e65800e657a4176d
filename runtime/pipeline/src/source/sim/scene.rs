//! A scene made ready: street, light, the drawn backdrop and the outlines of what stands in it.

use super::backdrop::Backdrop;
use super::draw::{bicycle, bus, car, dog, fixtures, person, props, truck};
use super::effects;
use super::layers::blend;
use super::light::{Light, Reach};
use super::maths::{V3, v3};
use super::mesh::{Mesh, Xf};
use super::order::Ground;
use super::raster::{Rect, Row, Tile};
use super::shadow::{Floor, Shadow};
use super::spec::SimSpec;
use super::street::Street;
use super::truth::Class;
use super::world::Actor;

/// Outline of a prop, which hides what passes behind it.
#[derive(Clone, Debug)]
pub(super) struct Occluder {
    /// In the frame's pixels, without shake.
    pub(super) rect: Rect,
    pub(super) alpha: Vec<u8>,
    pub(super) ground: Ground,
}

/// What all frames of a scene share.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) street: Street,
    pub(super) light: Light,
    pub(super) backdrop: Backdrop,
    pub(super) occluders: Vec<Occluder>,
}

impl Scene {
    pub(super) fn new(spec: &SimSpec) -> Scene {
        let street = Street::new(spec);
        let light = Light::new(spec);
        let seed = super::maths::mix(spec.seed) as u32;
        let backdrop = Backdrop::paint(&street, &light, seed, (spec.width, spec.height), spec.shake as usize);
        let mut scene = Scene { street, light, backdrop, occluders: Vec::new() };
        scene.place_props();
        scene
    }

    fn place_props(&mut self) {
        let b = &mut self.backdrop;
        let m = b.margin as i32;
        let frame = Rect { x0: 0, y0: 0, x1: b.width as i32, y1: b.height as i32 };
        // Draws into the whole backdrop: its first pixel lies a margin outside of the frame.
        let camera = self.street.camera.shifted(m, m);
        let (mut mesh, mut tile, mut shadow) = (Mesh::new(), Tile::new(), Shadow::default());
        let eye = camera.pos;
        let mut order: Vec<usize> = (0..self.street.props.len()).collect();
        let far = |k: &usize| {
            let d = self.street.props[*k].pos - eye;
            d.dot(d)
        };
        order.sort_by(|a, b| far(b).total_cmp(&far(a)));
        let open = vec![0; b.width * b.height];
        for pass in 0..2 {
            for &k in &order {
                let p = &self.street.props[k];
                let pose = Xf::pose(p.pos, p.heading);
                mesh.start(pose, 12);
                props::draw(&mut mesh, p.prop, p.key);
                if pass == 0 {
                    let mut floor = Floor {
                        rgb: &mut b.rgb,
                        width: b.width,
                        height: b.height,
                        full: &open,
                        ground: &b.ground,
                        stride: b.width,
                        origin: 0,
                    };
                    shadows(
                        &mut shadow,
                        &mut floor,
                        &mesh,
                        &pose,
                        (0.14, 0.14),
                        &camera,
                        &self.light,
                        &self.street,
                    );
                    continue;
                }
                let reach = reach(&self.street, &self.light, p.pos);
                let (stride, rgb, ground) = (b.width, &mut b.rgb, &mut b.ground);
                let mut rows: Vec<(i32, i32, Vec<u8>)> = Vec::new();
                if !tile.place(&mesh, &camera, &frame) {
                    continue;
                }
                tile.draw(&mesh, usize::MAX, &camera, &self.light, reach, |row| {
                    composite(rgb, stride, &row);
                    let at = row.y as usize * stride + row.x as usize;
                    for (g, c) in ground[at..].iter_mut().zip(row.rgba.iter()) {
                        if c[3] >= 128 {
                            *g = 0;
                        }
                    }
                    rows.push((row.y, row.x, row.rgba.iter().map(|c| c[3]).collect()));
                });
                let r = tile.rect;
                let mut alpha = vec![0; r.width() * r.height()];
                for (y, x, a) in &rows {
                    let at = (y - r.y0) as usize * r.width() + (x - r.x0) as usize;
                    alpha[at..at + a.len()].copy_from_slice(a);
                }
                let rect = Rect { x0: r.x0 - m, y0: r.y0 - m, x1: r.x1 - m, y1: r.y1 - m };
                self.occluders.push(Occluder { rect, alpha, ground: Ground::of(&pose, (0.15, 0.15)) });
                if self.light.lamps_on() {
                    for g in &mesh.glows {
                        effects::halo(&mut b.rgb, &frame, &camera, g, |_, _, _| false);
                    }
                }
            }
        }
    }
}

/// Light that reaches an object standing at `p`.
pub(super) fn reach(street: &Street, light: &Light, p: V3) -> Reach {
    let sun = street.sunlit(v3(p.x, 0.9, p.z), light.sun_dir);
    Reach { sun: f32::from(u8::from(sun)), lamp: if light.lamps_on() { street.lamplight(p) } else { 0.0 } }
}

/// The contact shadow and, in the sun, the cast one.
pub(super) fn shadows(
    shadow: &mut Shadow,
    floor: &mut Floor<'_>,
    mesh: &Mesh,
    pose: &Xf,
    footprint: (f32, f32),
    camera: &super::camera::Camera,
    light: &Light,
    street: &Street,
) {
    shadow.contact(floor, pose, (footprint.0 * 1.08, footprint.1 * 1.02), camera, 0.62);
    let total = light.diffuse(v3(0.0, 1.0, 0.0), Reach { sun: 1.0, lamp: 0.0 }).y;
    let share = light.sun.y * light.sun_dir.y / total.max(1e-6);
    if share > 0.15 && street.sunlit(v3(pose.t.x, 0.9, pose.t.z), light.sun_dir) {
        // Brightness goes with the square root of light.
        shadow.cast(floor, mesh, camera, light.sun_dir, 1.0 - (1.0 - share).sqrt());
    }
}

/// Blends a row over packed RGB rows of `width` pixels.
pub(super) fn composite(rgb: &mut [u8], width: usize, row: &Row<'_>) {
    let at = (row.y as usize * width + row.x as usize) * 3;
    let (dst, _) = rgb[at..at + row.rgba.len() * 3].as_chunks_mut::<3>();
    for (dst, c) in dst.iter_mut().zip(row.rgba.iter()) {
        if c[3] == 255 {
            dst.copy_from_slice(&c[..3]);
        } else if c[3] != 0 {
            blend(dst, c);
        }
    }
}

/// Fills `mesh` with an actor; returns its pose and where the second part (a rider) begins.
pub(super) fn build(mesh: &mut Mesh, a: &Actor, lamps: bool, segs: usize) -> (Xf, usize) {
    let pose = Xf::pose(a.pos, a.heading);
    mesh.start(pose, segs);
    let mut second = usize::MAX;
    match a.class {
        Class::Car => car::draw(mesh, a.key, a.travelled, lamps, a.state == 1),
        Class::Bus => bus::draw(mesh, a.key, a.travelled, lamps, a.state == 1),
        Class::Truck => truck::draw(mesh, a.key, a.travelled, lamps, a.state == 1),
        Class::Bicycle => {
            bicycle::draw(mesh, a.key, a.travelled, lamps && a.active);
            if a.active {
                second = mesh.tris.len();
                person::draw(mesh, a.key, person::Posture::Riding(bicycle::cranks(a.travelled)));
            }
        }
        Class::Person => {
            let posture =
                if a.active { person::Posture::Walking(a.travelled) } else { person::Posture::Standing };
            person::draw(mesh, a.key, posture);
        }
        Class::Dog => dog::draw(mesh, a.key, a.travelled),
        Class::TrafficLight => fixtures::traffic_light(mesh, a.key, a.state),
        Class::Sign => fixtures::sign(mesh, a.key),
    }
    (pose, second)
}
