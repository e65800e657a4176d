//! Parameter structs of the kernels, as `kernels/params.cuh` has them: each kernel's only argument, passed by value.
//!
//! A test reads the header and compares names, types and order, so the two cannot drift apart.

use saltica_tensor::DType;

/// Structs with C's layout and a list of their fields for the test.
macro_rules! params {
    ($($(#[$doc:meta])* $name:ident = $c:literal { $($field:ident: $t:tt),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
            pub(crate) struct $name { $(pub(crate) $field: $t,)* }
        )*

        /// C name, fields with their types and byte offsets, and size of each struct.
        #[cfg(test)]
        #[allow(clippy::type_complexity)]
        fn all() -> Vec<(&'static str, Vec<(&'static str, &'static str, usize)>, usize)> {
            vec![$((
                $c,
                vec![$((stringify!($field), stringify!($t), std::mem::offset_of!($name, $field)),)*],
                size_of::<$name>(),
            ),)*]
        }
    };
}

type Six = [i32; 6];

params! {
    /// Convolutions of all kinds.
    Conv = "ConvParams" {
        x: u64, w: u64, bias: u64, res: u64, y: u64, ws: u64, sem: u64, mul: u64, fbias: u64, table: u64, pad: u64,
        x2: u64,
        batch: i32, h: i32, wd: i32, cin: i32,
        oh: i32, ow: i32, cout: i32, groups: i32,
        kh: i32, kw: i32, sy: i32, sx: i32,
        py: i32, px: i32, dy: i32, dx: i32,
        x_img: i32, x_row: i32, x_pix: i32, x_ch: i32,
        y_img: i32, y_pix: i32,
        r_img: i32, r_pix: i32,
        x2_img: i32, x2_row: i32, x2_pix: i32, cin1: i32,
        up: i32, act: i32, act_a: f32, act_b: f32, res_mode: i32, out_dtype: i32, splits: i32, x_xor: i32,
        q_scale: f32, q_zero: i32, x_zero: i32, w_zero: i32,
    }

    /// Elementwise with broadcasting.
    Ew = "EwParams" {
        a: u64, b: u64, c: u64, y: u64,
        dims: Six, sa: Six, sb: Six, sc: Six, sy: Six,
        ta: i32, tb: i32, tc: i32, ty: i32, op: i32, count: i32, p0: f32, p1: f32,
    }

    /// Strided copies.
    Copy = "CopyParams" { x: u64, y: u64, dims: Six, sx: Six, sy: Six, count: i32, _pad: i32 }

    /// Batches of 2-D transposes.
    Transpose = "TransposeParams" {
        x: u64, y: u64, batch: i32, rows: i32, cols: i32, x_batch: i32, x_row: i32, y_batch: i32, y_row: i32,
        fill_rows: i32, tx: i32, ty: i32, _pad: [i32; 2],
    }

    /// One value everywhere.
    Fill = "FillParams" { y: u64, bits: u64, count: i32, size: i32, _pad: [i32; 2] }

    /// Softmax.
    Softmax = "SoftmaxParams" {
        x: u64, y: u64, outer: Six, sx: Six, sy: Six, n: i32, x_n: i32, y_n: i32, tx: i32, ty: i32, log: i32,
    }

    /// Reductions.
    Reduce = "ReduceParams" {
        x: u64, y: u64, outer: Six, sx: Six, sy: Six, inner: Six, si: Six, count: i32, inner_count: i32, kind: i32,
        tx: i32, ty: i32, last: i32,
    }

    /// Layer, group and instance normalisation.
    Norm = "NormParams" {
        x: u64, y: u64, scale: u64, bias: u64, outer: Six, inner: Six,
        xo: Six, xi: Six, yo: Six, yi: Six, so: Six, si: Six,
        count: i32, inner_count: i32, epsilon: f32, tx: i32, ty: i32, ts: i32,
    }

    /// Matrix products.
    Matmul = "MatmulParams" {
        a: u64, b: u64, c: u64, bias: u64,
        m: i32, n: i32, k: i32, batch1: i32,
        a_b0: i32, a_b1: i32, a_row: i32, a_col: i32,
        b_b0: i32, b_b1: i32, b_row: i32, b_col: i32,
        c_b0: i32, c_b1: i32, c_row: i32, c_col: i32,
        bias_row: i32, bias_col: i32, alpha: f32, beta: f32, ta: i32, tb: i32, tc: i32, tbias: i32, a_zero: i32,
        b_zero: i32, act: i32, act_a: f32, act_b: f32, _pad: i32,
    }

    /// Gather and scatter of all kinds.
    Gather = "GatherParams" {
        x: u64, indices: u64, y: u64, error: u64, dims: Six, sx: Six, si: Six, sy: Six,
        axis_stride: [i32; 6], axis_size: [i32; 6], k: i32, k_stride: i32, ti: i32, count: i32,
    }

    /// The largest or smallest of each row.
    TopK = "TopKParams" {
        x: u64, values: u64, indices: u64, rows: i32, n: i32, k: i32, x_row: i32, x_n: i32, v_row: i32, v_n: i32,
        i_row: i32, i_n: i32, tx: i32, smallest: i32, _pad: i32,
    }

    /// Resizing by tables.
    Resize = "ResizeParams" {
        x: u64, y: u64, rows: u64, cols: u64, batch: i32, channels: i32, oh: i32, ow: i32,
        x_img: i32, x_ch: i32, x_row: i32, x_pix: i32, y_img: i32, y_ch: i32, y_row: i32, y_pix: i32,
        tx: i32, ty: i32, taps: i32, _pad: [i32; 3],
    }

    /// Pixels at given places.
    GridSample = "GridSampleParams" {
        x: u64, grid: u64, y: u64, batch: i32, channels: i32, h: i32, w: i32, oh: i32, ow: i32,
        x_img: i32, x_ch: i32, x_row: i32, x_pix: i32, g_img: i32, g_row: i32, g_pix: i32, g_xy: i32,
        y_img: i32, y_ch: i32, y_row: i32, y_pix: i32, t: i32, mode: i32, outside: i32, align_corners: i32,
    }

    /// Pooling.
    Pool = "PoolParams" {
        x: u64, y: u64,
        batch: i32, h: i32, w: i32, c: i32,
        oh: i32, ow: i32, kh: i32, kw: i32,
        sy: i32, sx: i32, py: i32, px: i32,
        dy: i32, dx: i32,
        x_img: i32, x_row: i32, x_pix: i32, x_ch: i32,
        y_img: i32, y_pix: i32, y_ch: i32,
        mode: i32, pad_h: i32, pad_w: i32,
    }

    /// Three chained max pools.
    Sppf = "SppfParams" {
        x: u64, y1: u64, y2: u64, y3: u64, batch: i32, h: i32, w: i32, c: i32, x_img: i32, x_pix: i32, y_img: i32,
        y_pix: i32,
    }
}

/// The number a kernel knows a dtype by.
pub(crate) fn dtype_code(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::F64 => 2,
        DType::I8 => 3,
        DType::U8 => 4,
        DType::I32 => 5,
        DType::I64 => 6,
        DType::Bool => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of a struct in the header: name and type, arrays written out.
    fn header(name: &str) -> Vec<(String, String)> {
        let text = include_str!("../kernels/params.cuh");
        let start =
            text.find(&format!("struct {name} {{")).unwrap_or_else(|| panic!("{name} is not in params.cuh"));
        let body = &text[start..];
        let body = &body[body.find('{').unwrap() + 1..body.find("\n};").unwrap()];
        let mut fields = Vec::new();
        for line in body.lines() {
            let code = line.split("//").next().unwrap();
            for statement in code.split(';').map(str::trim).filter(|s| !s.is_empty()) {
                let statement = statement.strip_prefix("struct ").unwrap_or(statement);
                let (t, names) = statement.split_once(' ').unwrap();
                for name in names.split(',').map(str::trim) {
                    match name.split_once('[') {
                        Some((name, n)) => {
                            fields.push((name.to_string(), format!("[{t}; {}]", n.trim_end_matches(']'))));
                        }
                        None => fields.push((name.to_string(), t.to_string())),
                    }
                }
            }
        }
        fields
    }

    #[test]
    fn structs_are_those_of_the_header() {
        for (name, fields, size) in all() {
            let here: Vec<(String, String)> = fields
                .iter()
                .map(|(n, t, _)| {
                    let dims = ["dims", "outer", "inner"].contains(n);
                    let t = if *t == "Six" { if dims { "Dims" } else { "Strides" } } else { t };
                    (n.to_string(), t.to_string())
                })
                .collect();
            assert_eq!(here, header(name), "{name}");
            assert_eq!(size % 8, 0, "{name}");
            // No hidden padding: each field begins where the one before ends (Pod has seen to it), as in C.
            assert_eq!(fields[0].2, 0);
        }
    }

    #[test]
    fn dtypes_are_numbered_as_in_the_header() {
        let text = include_str!("../kernels/params.cuh");
        for dtype in DType::ALL {
            let line = format!("#define DT_{} {}", dtype.name().to_uppercase(), dtype_code(dtype));
            assert!(text.lines().any(|l| l.trim() == line), "{line}");
        }
    }
}
