//! Times every convolution of a detector: `conv_layers [yolov8n|yolox-nano] [THREADS] [ISA]`.
//!
//! Prints the fastest of many runs, layer by layer in the model's order of appearance, and the sum over the model. With one
//! thread, times are processor time, so that other programs disturb them less.

use saltica_cpu::{Isa, PackedConv, Pool};
use saltica_models::graph::Activation;
use saltica_models::graph::ops::window::{AutoPad, Window};
use saltica_models::graph::ops::{Conv, Residual};
use saltica_tensor::{Layout, Shape, Tensor, View, ViewMut};
use std::time::Instant;

/// Input channels, output channels, kernel, stride, output side, group, how often. All have SiLU but the last of a head.
type Layer = (usize, usize, usize, usize, usize, usize, usize);

/// YOLOv8n at 640 x 640.
const YOLOV8N: &[Layer] = &[
    (3, 16, 3, 2, 320, 1, 1),
    (16, 32, 3, 2, 160, 1, 1),
    (32, 32, 1, 1, 160, 1, 1),
    (16, 16, 3, 1, 160, 1, 2),
    (48, 32, 1, 1, 160, 1, 1),
    (32, 64, 3, 2, 80, 1, 1),
    (64, 64, 1, 1, 80, 1, 2),
    (32, 32, 3, 1, 80, 1, 6),
    (128, 64, 1, 1, 80, 1, 1),
    (64, 128, 3, 2, 40, 1, 1),
    (128, 128, 1, 1, 40, 1, 1),
    (64, 64, 3, 1, 40, 1, 9),
    (256, 128, 1, 1, 40, 1, 1),
    (128, 256, 3, 2, 20, 1, 1),
    (256, 256, 1, 1, 20, 1, 1),
    (128, 128, 3, 1, 20, 1, 4),
    (384, 256, 1, 1, 20, 1, 3),
    (256, 128, 1, 1, 20, 1, 1),
    (512, 256, 1, 1, 20, 1, 1),
    (384, 128, 1, 1, 40, 1, 1),
    (192, 128, 1, 1, 40, 1, 3),
    (192, 64, 1, 1, 80, 1, 1),
    (96, 64, 1, 1, 80, 1, 1),
    (64, 64, 3, 2, 40, 1, 1),
    (64, 64, 3, 1, 80, 1, 2),
    (64, 80, 3, 1, 80, 1, 1),
    (80, 80, 3, 1, 80, 1, 1),
    (80, 80, 1, 1, 80, 1, 1),
    (128, 128, 3, 2, 20, 1, 1),
    (128, 64, 3, 1, 40, 1, 1),
    (128, 80, 3, 1, 40, 1, 1),
    (80, 80, 3, 1, 40, 1, 1),
    (64, 64, 1, 1, 40, 1, 1),
    (80, 80, 1, 1, 40, 1, 1),
    (256, 64, 3, 1, 20, 1, 1),
    (256, 80, 3, 1, 20, 1, 1),
    (64, 64, 3, 1, 20, 1, 1),
    (80, 80, 3, 1, 20, 1, 1),
    (64, 64, 1, 1, 20, 1, 1),
    (80, 80, 1, 1, 20, 1, 1),
];

/// YOLOX-nano at 416 x 416.
const YOLOX_NANO: &[Layer] = &[
    (12, 16, 3, 1, 208, 1, 1),
    (16, 16, 3, 2, 104, 16, 1),
    (16, 32, 1, 1, 104, 1, 1),
    (32, 16, 1, 1, 104, 1, 2),
    (16, 16, 1, 1, 104, 1, 2),
    (16, 16, 3, 1, 104, 16, 1),
    (32, 32, 1, 1, 104, 1, 1),
    (32, 32, 3, 2, 52, 32, 1),
    (32, 64, 1, 1, 52, 1, 1),
    (64, 32, 1, 1, 52, 1, 2),
    (32, 32, 1, 1, 52, 1, 8),
    (32, 32, 3, 1, 52, 32, 4),
    (64, 64, 1, 1, 52, 1, 7),
    (64, 64, 3, 2, 26, 64, 2),
    (64, 128, 1, 1, 26, 1, 1),
    (128, 64, 1, 1, 26, 1, 6),
    (64, 64, 1, 1, 26, 1, 15),
    (64, 64, 3, 1, 26, 64, 9),
    (128, 128, 1, 1, 26, 1, 3),
    (128, 128, 3, 2, 13, 128, 2),
    (128, 256, 1, 1, 13, 1, 1),
    (256, 128, 1, 1, 13, 1, 6),
    (512, 256, 1, 1, 13, 1, 1),
    (128, 128, 1, 1, 13, 1, 5),
    (128, 128, 3, 1, 13, 128, 2),
    (256, 256, 1, 1, 13, 1, 2),
    (256, 64, 1, 1, 26, 1, 2),
    (128, 32, 1, 1, 52, 1, 2),
    (64, 64, 3, 1, 52, 64, 4),
    (64, 80, 1, 1, 52, 1, 1),
    (64, 4, 1, 1, 52, 1, 1),
    (64, 1, 1, 1, 52, 1, 1),
    (64, 80, 1, 1, 26, 1, 1),
    (64, 4, 1, 1, 26, 1, 1),
    (64, 1, 1, 1, 26, 1, 1),
    (256, 64, 1, 1, 13, 1, 1),
    (64, 64, 3, 1, 13, 64, 4),
    (64, 64, 1, 1, 13, 1, 4),
    (64, 80, 1, 1, 13, 1, 1),
    (64, 4, 1, 1, 13, 1, 1),
    (64, 1, 1, 1, 13, 1, 1),
];

/// Seconds this thread has run.
fn processor_time() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a timespec to write to; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let layers = match args.first().map_or("yolov8n", String::as_str) {
        "yolov8n" => YOLOV8N,
        "yolox-nano" => YOLOX_NANO,
        other => return Err(format!("model '{other}' is not known; yolov8n or yolox-nano expected").into()),
    };
    let threads = args.get(1).map_or(Ok(1), |t| t.parse())?;
    let isa = args.get(2).map_or_else(Isa::from_env, |name| Isa::named(name))?;
    let pool = Pool::new(threads)?;
    println!("{isa}, {threads} threads");
    println!("{:>28} {:>6} {:>9} {:>9} {:>8}", "layer", "times", "us", "GMAC/s", "sum ms");
    let (mut macs, mut seconds) = (0.0, 0.0);
    for &(ic, oc, k, stride, out, group, times) in layers {
        let side = out * stride;
        let window = Window {
            kernel: [k, k],
            stride: [stride; 2],
            dilation: [1, 1],
            pads: [k / 2; 4],
            auto_pad: AutoPad::Explicit,
            ceil_mode: false,
        };
        let conv = Conv { window, group, activation: Activation::Silu, residual: Residual::None };
        let weights: Vec<f32> = (0..oc * ic / group * k * k).map(|i| (i % 17) as f32 * 0.01 - 0.08).collect();
        let weights = Tensor::from_slice(&[oc, ic / group, k, k], &weights)?;
        let bias = Tensor::from_slice(&[oc], &vec![0.1f32; oc])?;
        let packed = PackedConv::new(isa, &conv, &weights, Some(&bias))?;
        // The image comes as the file has it, everything inside is channels-last.
        let shape = Shape::new(&[1, ic, side, side])?;
        let xl = if ic == 3 { Layout::contiguous(shape) } else { Layout::channels_last(shape, ic)? };
        let yl = Layout::channels_last(Shape::new(&[1, oc, out, out])?, oc)?;
        let xs: Vec<f32> = (0..xl.span()).map(|i| (i % 29) as f32 * 0.03 - 0.4).collect();
        let mut ys = vec![0f32; yl.span()];
        let mut scratch = vec![0u8; packed.scratch_bytes(&xl, threads)];
        let x = View::of_slice(&xs, xl).ok_or("x's layout")?;
        let mut y = ViewMut::of_slice(&mut ys, yl).ok_or("y's layout")?;
        let mut best = f64::MAX;
        let started = Instant::now();
        let mut runs = 0;
        while runs < 15 || (started.elapsed().as_millis() < 60 && runs < 1000) {
            let (wall, cpu) = (Instant::now(), processor_time());
            packed.run(&pool, &x, None, &mut y, &mut scratch)?;
            let seconds = if threads == 1 { processor_time() - cpu } else { wall.elapsed().as_secs_f64() };
            best = best.min(seconds);
            runs += 1;
        }
        let layer_macs = (oc * out * out * ic / group * k * k) as f64;
        macs += layer_macs * times as f64;
        seconds += best * times as f64;
        println!(
            "{:>28} {times:>6} {:>9.1} {:>9.1} {:>8.2}",
            format!("{ic}->{oc} {k}x{k}/{stride} {out}x{out} g{group}"),
            best * 1e6,
            layer_macs / best / 1e9,
            best * times as f64 * 1e3
        );
    }
    println!("all: {:.2} ms, {:.2} GMAC, {:.1} GMAC/s", seconds * 1e3, macs / 1e9, macs / seconds / 1e9);
    Ok(())
}
