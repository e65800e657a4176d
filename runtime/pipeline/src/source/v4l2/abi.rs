//! The kernel's structures (`linux/videodev2.h`), as far as we use them, for 64-bit machines.
//!
//! Sizes are part of the request numbers, so a wrong one is refused by the kernel; they are asserted here for x86-64 and
//! aarch64, whose layouts are the same.

use std::mem::size_of;

pub(crate) const CAPTURE: u32 = 1;
pub(crate) const CAPTURE_MPLANE: u32 = 9;

pub(crate) const CAP_CAPTURE: u32 = 0x0000_0001;
pub(crate) const CAP_CAPTURE_MPLANE: u32 = 0x0000_1000;
pub(crate) const CAP_META_CAPTURE: u32 = 0x0080_0000;
pub(crate) const CAP_STREAMING: u32 = 0x0400_0000;
pub(crate) const CAP_DEVICE_CAPS: u32 = 0x8000_0000;

pub(crate) const MEMORY_MMAP: u32 = 1;
pub(crate) const MEMORY_USERPTR: u32 = 2;

pub(crate) const FIELD_NONE: u32 = 1;
pub(crate) const FIELD_INTERLACED: u32 = 4;

pub(crate) const FLAG_ERROR: u32 = 0x40;
pub(crate) const FLAG_TIMESTAMP_MASK: u32 = 0xe000;
pub(crate) const FLAG_TIMESTAMP_MONOTONIC: u32 = 0x2000;
pub(crate) const FLAG_LAST: u32 = 0x0010_0000;

pub(crate) const SIZE_DISCRETE: u32 = 1;
pub(crate) const PARM_TIMEPERFRAME: u32 = 0x1000;
pub(crate) const CTRL_NEXT: u32 = 0x8000_0000;

pub(crate) const MAX_PLANES: usize = 8;

/// A code of four letters.
pub(crate) const fn fourcc(code: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*code)
}

/// A code's letters, for messages.
pub(crate) fn fourcc_name(code: u32) -> String {
    let letters = code.to_le_bytes().map(|b| if (0x21..0x7f).contains(&b) { b as char } else { '?' });
    letters.iter().collect()
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Capability {
    pub(crate) driver: [u8; 16],
    pub(crate) card: [u8; 32],
    pub(crate) bus_info: [u8; 32],
    pub(crate) version: u32,
    pub(crate) capabilities: u32,
    pub(crate) device_caps: u32,
    pub(crate) reserved: [u32; 3],
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct FmtDesc {
    pub(crate) index: u32,
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) description: [u8; 32],
    pub(crate) pixelformat: u32,
    pub(crate) mbus_code: u32,
    pub(crate) reserved: [u32; 3],
}

/// `v4l2_frmsizeenum`: `size` is width and height, or min, max, step of width and of height.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct FrameSizes {
    pub(crate) index: u32,
    pub(crate) pixelformat: u32,
    pub(crate) kind: u32,
    pub(crate) size: [u32; 6],
    pub(crate) reserved: [u32; 2],
}

/// `v4l2_frmivalenum`: `interval` is a fraction, or the shortest, the longest and the step.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct FrameIntervals {
    pub(crate) index: u32,
    pub(crate) pixelformat: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) kind: u32,
    pub(crate) interval: [u32; 6],
    pub(crate) reserved: [u32; 2],
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct PixFormat {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) pixelformat: u32,
    pub(crate) field: u32,
    pub(crate) bytesperline: u32,
    pub(crate) sizeimage: u32,
    pub(crate) colorspace: u32,
    pub(crate) private: u32,
    pub(crate) flags: u32,
    pub(crate) ycbcr_enc: u32,
    pub(crate) quantization: u32,
    pub(crate) xfer_func: u32,
}

/// `v4l2_plane_pix_format`, which the kernel packs; its fields are aligned anyway.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct PlanePixFormat {
    pub(crate) sizeimage: u32,
    pub(crate) bytesperline: u32,
    pub(crate) reserved: [u16; 6],
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct PixFormatMplane {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) pixelformat: u32,
    pub(crate) field: u32,
    pub(crate) colorspace: u32,
    pub(crate) planes: [PlanePixFormat; MAX_PLANES],
    pub(crate) num_planes: u8,
    pub(crate) flags: u8,
    pub(crate) ycbcr_enc: u8,
    pub(crate) quantization: u8,
    pub(crate) xfer_func: u8,
    pub(crate) reserved: [u8; 7],
}

/// `v4l2_format` of a single-planar queue.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Format {
    pub(crate) kind: u32,
    pad: u32,
    pub(crate) pix: PixFormat,
    rest: [u8; 200 - 48],
}

/// `v4l2_format` of a multi-planar queue.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct FormatMplane {
    pub(crate) kind: u32,
    pad: u32,
    pub(crate) pix: PixFormatMplane,
    rest: [u8; 200 - 192],
}

impl Format {
    pub(crate) fn new(pix: PixFormat) -> Self {
        Format { kind: CAPTURE, pad: 0, pix, rest: [0; 152] }
    }
}

impl FormatMplane {
    pub(crate) fn new(pix: PixFormatMplane) -> Self {
        FormatMplane { kind: CAPTURE_MPLANE, pad: 0, pix, rest: [0; 8] }
    }
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RequestBuffers {
    pub(crate) count: u32,
    pub(crate) kind: u32,
    pub(crate) memory: u32,
    pub(crate) capabilities: u32,
    pub(crate) flags: u8,
    pub(crate) reserved: [u8; 3],
}

/// `v4l2_buffer`. `m` is an offset, an address or a pointer to planes, by memory and queue.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RawBuffer {
    pub(crate) index: u32,
    pub(crate) kind: u32,
    pub(crate) bytesused: u32,
    pub(crate) flags: u32,
    pub(crate) field: u32,
    pad: u32,
    pub(crate) seconds: i64,
    pub(crate) microseconds: i64,
    pub(crate) timecode: [u32; 4],
    pub(crate) sequence: u32,
    pub(crate) memory: u32,
    pub(crate) m: u64,
    pub(crate) length: u32,
    pub(crate) reserved: u32,
    pub(crate) request_fd: i32,
    pad2: u32,
}

/// `v4l2_plane`. `m` is an offset or an address.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RawPlane {
    pub(crate) bytesused: u32,
    pub(crate) length: u32,
    pub(crate) m: u64,
    pub(crate) data_offset: u32,
    pub(crate) reserved: [u32; 11],
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ExportBuffer {
    pub(crate) kind: u32,
    pub(crate) index: u32,
    pub(crate) plane: u32,
    pub(crate) flags: u32,
    pub(crate) fd: i32,
    pub(crate) reserved: [u32; 11],
}

/// `v4l2_streamparm` of a capture queue.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct StreamParm {
    pub(crate) kind: u32,
    pub(crate) capability: u32,
    pub(crate) capturemode: u32,
    /// Numerator and denominator of the seconds between frames.
    pub(crate) interval: [u32; 2],
    pub(crate) extendedmode: u32,
    pub(crate) readbuffers: u32,
    pub(crate) reserved: [u32; 4],
    rest: [u8; 200 - 40],
}

impl StreamParm {
    pub(crate) fn new(kind: u32) -> Self {
        StreamParm {
            kind,
            capability: 0,
            capturemode: 0,
            interval: [0; 2],
            extendedmode: 0,
            readbuffers: 0,
            reserved: [0; 4],
            rest: [0; 160],
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Control {
    pub(crate) id: u32,
    pub(crate) value: i32,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct QueryCtrl {
    pub(crate) id: u32,
    pub(crate) kind: u32,
    pub(crate) name: [u8; 32],
    pub(crate) minimum: i32,
    pub(crate) maximum: i32,
    pub(crate) step: i32,
    pub(crate) default: i32,
    pub(crate) flags: u32,
    pub(crate) reserved: [u32; 2],
}

/// `_IOC(direction, 'V', number, size)`: direction 1 writes to the kernel, 2 reads, 3 both.
const fn request(direction: u32, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | (b'V' as u32) << 8 | number
}

pub(crate) const QUERYCAP: u32 = request(2, 0, size_of::<Capability>());
pub(crate) const ENUM_FMT: u32 = request(3, 2, size_of::<FmtDesc>());
pub(crate) const S_FMT: u32 = request(3, 5, size_of::<Format>());
pub(crate) const REQBUFS: u32 = request(3, 8, size_of::<RequestBuffers>());
pub(crate) const QUERYBUF: u32 = request(3, 9, size_of::<RawBuffer>());
pub(crate) const QBUF: u32 = request(3, 15, size_of::<RawBuffer>());
pub(crate) const EXPBUF: u32 = request(3, 16, size_of::<ExportBuffer>());
pub(crate) const DQBUF: u32 = request(3, 17, size_of::<RawBuffer>());
pub(crate) const STREAMON: u32 = request(1, 18, size_of::<i32>());
pub(crate) const STREAMOFF: u32 = request(1, 19, size_of::<i32>());
pub(crate) const S_PARM: u32 = request(3, 22, size_of::<StreamParm>());
pub(crate) const S_CTRL: u32 = request(3, 28, size_of::<Control>());
pub(crate) const QUERYCTRL: u32 = request(3, 36, size_of::<QueryCtrl>());
pub(crate) const ENUM_FRAMESIZES: u32 = request(3, 74, size_of::<FrameSizes>());
pub(crate) const ENUM_FRAMEINTERVALS: u32 = request(3, 75, size_of::<FrameIntervals>());

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the V4L2 structures are written down for 64-bit machines only");

// Sizes and request numbers as a C compiler gives them for linux/videodev2.h of 6.1, on x86-64 and aarch64 alike.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const _: () = {
    assert!(size_of::<Capability>() == 104 && QUERYCAP == 0x8068_5600);
    assert!(size_of::<FmtDesc>() == 64 && ENUM_FMT == 0xc040_5602);
    assert!(size_of::<PixFormat>() == 48 && size_of::<PixFormatMplane>() == 192);
    assert!(size_of::<PlanePixFormat>() == 20);
    assert!(size_of::<Format>() == 208 && size_of::<FormatMplane>() == 208 && S_FMT == 0xc0d0_5605);
    assert!(size_of::<RequestBuffers>() == 20 && REQBUFS == 0xc014_5608);
    assert!(size_of::<RawBuffer>() == 88 && QUERYBUF == 0xc058_5609);
    assert!(QBUF == 0xc058_560f && DQBUF == 0xc058_5611);
    assert!(size_of::<RawPlane>() == 64);
    assert!(size_of::<ExportBuffer>() == 64 && EXPBUF == 0xc040_5610);
    assert!(STREAMON == 0x4004_5612 && STREAMOFF == 0x4004_5613);
    assert!(size_of::<StreamParm>() == 204 && S_PARM == 0xc0cc_5616);
    assert!(size_of::<Control>() == 8 && S_CTRL == 0xc008_561c);
    assert!(size_of::<QueryCtrl>() == 68 && QUERYCTRL == 0xc044_5624);
    assert!(size_of::<FrameSizes>() == 44 && ENUM_FRAMESIZES == 0xc02c_564a);
    assert!(size_of::<FrameIntervals>() == 52 && ENUM_FRAMEINTERVALS == 0xc034_564b);
};
