//! Truth against an independent rendering of each object alone: every triangle's inside is tested point by point in
//! double precision, with no depth, no fixed point and no spans. Surfaces have one side, as in the drawings.

use super::*;
use crate::source::sim::camera::NEAR;

/// Extent of the covered quarter-pixel samples within the frame, or `None` when a vertex lies before the near plane.
fn render(
    camera: &Camera,
    mesh: &Mesh,
    range: std::ops::Range<usize>,
    w: usize,
    h: usize,
) -> Option<PixelBox> {
    const SUB: f64 = 4.0;
    let mut b: Option<(i64, i64, i64, i64)> = None;
    for t in &mesh.tris[range] {
        let mut p = [(0.0f64, 0.0f64); 3];
        for (q, i) in p.iter_mut().zip(t) {
            let v = camera.view(mesh.verts[*i as usize].p);
            if v.z < NEAR {
                return None;
            }
            let k = f64::from(camera.focal) / f64::from(v.z);
            *q = (
                f64::from(camera.centre.0) + f64::from(v.x) * k,
                f64::from(camera.centre.1) + f64::from(v.y) * k,
            );
        }
        let lo = |f: fn(&(f64, f64)) -> f64, top: usize| {
            let v = p.iter().map(f).fold(f64::MAX, f64::min).clamp(0.0, top as f64);
            (v * SUB).floor() as i64
        };
        let hi = |f: fn(&(f64, f64)) -> f64, top: usize| {
            let v = p.iter().map(f).fold(f64::MIN, f64::max).clamp(0.0, top as f64);
            (v * SUB).ceil() as i64
        };
        let edge =
            |a: (f64, f64), b: (f64, f64), x: f64, y: f64| (b.0 - a.0) * (y - a.1) - (b.1 - a.1) * (x - a.0);
        for y in lo(|q| q.1, h)..hi(|q| q.1, h) {
            for x in lo(|q| q.0, w)..hi(|q| q.0, w) {
                let (px, py) = ((x as f64 + 0.5) / SUB, (y as f64 + 0.5) / SUB);
                let e = [edge(p[0], p[1], px, py), edge(p[1], p[2], px, py), edge(p[2], p[0], px, py)];
                if e.iter().all(|v| *v > 0.0) {
                    let q = b.get_or_insert((x, y, x, y));
                    *q = (q.0.min(x), q.1.min(y), q.2.max(x), q.3.max(y));
                }
            }
        }
    }
    let k = 1.0 / SUB as f32;
    b.map(|q| PixelBox {
        x0: q.0 as f32 * k,
        y0: q.1 as f32 * k,
        x1: (q.2 + 1) as f32 * k,
        y1: (q.3 + 1) as f32 * k,
    })
}

#[test]
fn boxes_agree_with_each_object_rendered_alone() {
    let (mut checked, mut worst) = ([0u32; 8], 1.0f32);
    let scenes = [
        (1, "street"),
        (2, "crowded"),
        (3, "street"),
        (4, "crowded"),
        (5, "sparse"),
        (6, "distractors"),
        (8, "crowded"),
    ];
    for (seed, scene) in scenes {
        let uri = format!("sim:{scene}?seed={seed}&size=800x450&index=off&noise=0");
        let spec = SimSpec::parse(&uri).unwrap();
        let mut sim = Sim::open(&spec).unwrap();
        let mut buf = FrameBuf::default();
        for n in [0, 97, 411, 1003, 2222, 4100] {
            sim.frame(n, &mut buf).unwrap();
            let camera = sim.scene.street.camera;
            for o in sim.truth.objects.iter().filter(|o| o.full.width().max(o.full.height()) >= 32.0) {
                let (actor, part) = (o.track / 2, o.track % 2);
                let id = sim.drawn.iter().position(|d| d.actor.track == actor).unwrap();
                let (mesh, d) = (&sim.meshes[id], &sim.drawn[id]);
                let range = match (d.second, part) {
                    (usize::MAX, _) => 0..mesh.tris.len(),
                    (s, 0) => 0..s,
                    (s, _) => s..mesh.tris.len(),
                };
                let Some(alone) = render(&camera, mesh, range, spec.width, spec.height) else { continue };
                let iou = o.full.iou(&alone);
                worst = worst.min(iou);
                assert!(
                    iou >= 0.97,
                    "{scene} {seed} frame {n} {:?}: {iou} {:?} alone {alone:?}",
                    o.class,
                    o.full
                );
                if o.visibility >= 1.0 {
                    let iou = o.bbox.iou(&alone);
                    assert!(iou >= 0.97, "{scene} {seed} frame {n} {:?} visible: {iou}", o.class);
                }
                checked[o.class.id()] += 1;
            }
        }
    }
    println!("checked {checked:?}, worst IoU {worst}");
    assert!(checked.iter().all(|n| *n > 0), "every class must occur: {checked:?}");
    assert!(checked.iter().sum::<u32>() > 100, "{checked:?}");
}

#[test]
fn a_mesh_never_outgrows_the_ids() {
    let mut mesh = Mesh::new();
    for seed in 0..400u64 {
        for class in Class::ALL {
            let a = Actor {
                class,
                key: seed * 77,
                track: 1,
                pos: V3::default(),
                heading: 0.1,
                travelled: seed as f32 * 0.37,
                active: true,
                state: 1,
                footprint: (1.0, 1.0),
                height: 1.0,
            };
            scene::build(&mut mesh, &a, true, 14);
            assert!(mesh.tris.len() < super::super::mesh::MAX_TRIS, "{class:?}: {}", mesh.tris.len());
            assert!(
                mesh.verts.iter().all(|v| v.p.x.is_finite() && v.n.x.is_finite() && v.p.dot(v.p) < 64.0),
                "{class:?}"
            );
        }
    }
}
