//! The few functions of GStreamer 1.x that we call, opened when first needed (`dlopen`), so that the program builds and
//! starts without it.
//!
//! Invariants:
//! * A function pointer is what `dlsym` found under the name of the documented C function whose signature it is given here
//!   (GStreamer's ABI is stable since 1.0). Libraries are never closed.
//! * Every object is held by a type that owns one reference and gives it back once, when dropped. GStreamer counts
//!   references atomically and locks its objects itself, so they may move between threads.
//! * Structures whose fields are read ([`MapInfo`], a buffer's time stamp) have the layout of the public headers.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::{offset_of, size_of};
use std::sync::OnceLock;
use std::time::Duration;

type Object = *mut c_void;

/// `GstMapInfo`.
#[repr(C)]
struct MapInfo {
    memory: Object,
    flags: c_int,
    data: *const u8,
    size: usize,
    maxsize: usize,
    user_data: [Object; 4],
    reserved: [Object; 4],
}

/// The start of `GstBuffer`: a `GstMiniObject`, then the pool and the time stamps in nanoseconds.
#[repr(C)]
struct BufferHead {
    kind: usize,
    refcount: c_int,
    lockstate: c_int,
    flags: u32,
    functions: [Object; 3],
    private: u32,
    private_pointer: Object,
    pool: Object,
    pts: u64,
}

/// The start of `GstVideoMeta`.
#[repr(C)]
struct VideoMeta {
    flags: c_int,
    info: Object,
    buffer: Object,
    frame_flags: c_int,
    format: c_int,
    id: c_int,
    width: u32,
    height: u32,
    planes: u32,
    offset: [usize; 4],
    stride: [c_int; 4],
}

const _: () = {
    assert!(size_of::<MapInfo>() == 104);
    assert!(offset_of!(BufferHead, pts) == 72);
    assert!(offset_of!(VideoMeta, offset) == 48 && offset_of!(VideoMeta, stride) == 80);
};

/// The start of `GError`.
#[repr(C)]
struct GError {
    domain: u32,
    code: c_int,
    message: *const c_char,
}

macro_rules! functions {
    ($($library:ident { $($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)* })*) => {
        struct Functions {
            $($($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*)*
        }

        impl Functions {
            fn find(libraries: &Libraries) -> Result<Functions, String> {
                Ok(Functions {
                    $($($name: {
                        let found = libraries.$library.symbol(stringify!($name))?;
                        // SAFETY: the module's first invariant: the symbol is the C function of this signature.
                        unsafe {
                            std::mem::transmute::<Object, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found)
                        }
                    },)*)*
                })
            }
        }
    };
}

functions! {
    core {
        gst_init_check: fn(*mut c_int, *mut Object, *mut *mut GError) -> c_int;
        gst_version_string: fn() -> *mut c_char;
        gst_parse_launch: fn(*const c_char, *mut *mut GError) -> Object;
        gst_element_factory_find: fn(*const c_char) -> Object;
        gst_bin_get_by_name: fn(Object, *const c_char) -> Object;
        gst_element_set_state: fn(Object, c_int) -> c_int;
        gst_element_get_bus: fn(Object) -> Object;
        gst_element_get_base_time: fn(Object) -> u64;
        gst_bus_timed_pop_filtered: fn(Object, u64, c_int) -> Object;
        gst_message_parse_error: fn(Object, *mut *mut GError, *mut *mut c_char);
        gst_object_unref: fn(Object);
        gst_mini_object_unref: fn(Object);
        gst_sample_get_buffer: fn(Object) -> Object;
        gst_sample_get_caps: fn(Object) -> Object;
        gst_caps_get_structure: fn(Object, u32) -> Object;
        gst_structure_get_int: fn(Object, *const c_char, *mut c_int) -> c_int;
        gst_structure_get_string: fn(Object, *const c_char) -> *const c_char;
        gst_structure_get_fraction: fn(Object, *const c_char, *mut c_int, *mut c_int) -> c_int;
        gst_buffer_map: fn(Object, *mut MapInfo, c_int) -> c_int;
        gst_buffer_unmap: fn(Object, *mut MapInfo);
    }
    app {
        gst_app_sink_try_pull_sample: fn(Object, u64) -> Object;
        gst_app_sink_is_eos: fn(Object) -> c_int;
    }
    video {
        gst_buffer_get_video_meta: fn(Object) -> *const VideoMeta;
    }
    glib {
        g_error_free: fn(*mut GError);
        g_free: fn(*mut c_void);
    }
}

struct Library(Object);

impl Library {
    fn open(name: &CStr) -> Result<Library, String> {
        // SAFETY: the name is a C string; the library's initialisers are GStreamer's own.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            return Err(format!("{} cannot be opened", name.to_string_lossy()));
        }
        Ok(Library(handle))
    }

    fn symbol(&self, name: &str) -> Result<Object, String> {
        let text = CString::new(name).map_err(|_| name.to_owned())?;
        // SAFETY: the handle is open, the name is a C string.
        let found = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        if found.is_null() {
            Err(format!("the GStreamer library lacks {name}: version 1.10 or later expected"))
        } else {
            Ok(found)
        }
    }
}

struct Libraries {
    core: Library,
    app: Library,
    video: Library,
    glib: Library,
}

/// GStreamer, opened and initialised.
pub(crate) struct Gst {
    f: Functions,
    version: String,
}

// SAFETY: function pointers and a text; GStreamer's functions may be called from any thread.
unsafe impl Send for Gst {}
// SAFETY: as above.
unsafe impl Sync for Gst {}

/// Names of the libraries, with the Debian packages that hold them.
const LIBRARIES: [(&CStr, &str); 4] = [
    (c"libgstreamer-1.0.so.0", "libgstreamer1.0-0"),
    (c"libgstapp-1.0.so.0", "libgstreamer-plugins-base1.0-0"),
    (c"libgstvideo-1.0.so.0", "libgstreamer-plugins-base1.0-0"),
    (c"libglib-2.0.so.0", "libglib2.0-0"),
];

impl Gst {
    /// GStreamer, or what is missing.
    pub(crate) fn get() -> Result<&'static Gst, String> {
        static GST: OnceLock<Result<Gst, String>> = OnceLock::new();
        GST.get_or_init(Gst::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Gst, String> {
        let mut opened = Vec::new();
        for (name, package) in LIBRARIES {
            opened.push(Library::open(name).map_err(|e| format!("{e}: install the package {package}"))?);
        }
        let mut each = opened.into_iter();
        let (Some(core), Some(app), Some(video), Some(glib)) =
            (each.next(), each.next(), each.next(), each.next())
        else {
            return Err("GStreamer cannot be opened".into());
        };
        let f = Functions::find(&Libraries { core, app, video, glib })?;
        let mut error = std::ptr::null_mut();
        // SAFETY: null for argc and argv is allowed; the error's place is ours.
        let started = unsafe { (f.gst_init_check)(std::ptr::null_mut(), std::ptr::null_mut(), &mut error) };
        let mut gst = Gst { f, version: String::new() };
        if started == 0 {
            return Err(format!("GStreamer does not start: {}", gst.take_error(error)));
        }
        // SAFETY: returns a new C string that we free.
        gst.version = unsafe { gst.take_text((gst.f.gst_version_string)()) };
        Ok(gst)
    }

    /// Such as "GStreamer 1.22.0".
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Whether there is an element of this name.
    pub(crate) fn has(&self, element: &str) -> bool {
        let Ok(name) = CString::new(element) else { return false };
        // SAFETY: a C string; a factory that is found is given back.
        unsafe {
            let found = (self.f.gst_element_factory_find)(name.as_ptr());
            if !found.is_null() {
                (self.f.gst_object_unref)(found);
            }
            !found.is_null()
        }
    }

    fn take_error(&self, error: *mut GError) -> String {
        if error.is_null() {
            return "no reason given".into();
        }
        // SAFETY: an error that GLib made for us: its message is a C string; it is freed once, here.
        unsafe {
            let text = if (*error).message.is_null() {
                String::new()
            } else {
                CStr::from_ptr((*error).message).to_string_lossy().into_owned()
            };
            (self.f.g_error_free)(error);
            text
        }
    }

    /// # Safety
    /// `text` is null or a C string that is ours to free.
    unsafe fn take_text(&self, text: *mut c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: as the caller says.
        unsafe {
            let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.f.g_free)(text.cast());
            owned
        }
    }
}

/// One reference to a `GstObject`.
struct Owned {
    gst: &'static Gst,
    object: Object,
}

// SAFETY: see the module's second invariant.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the one reference that this type owns.
        unsafe { (self.gst.f.gst_object_unref)(self.object) };
    }
}

/// A pipeline that ends in an `appsink` named `sink`.
pub(crate) struct Pipeline {
    sink: Owned,
    bus: Owned,
    // Last: the others are parts of it.
    pipeline: Owned,
    gst: &'static Gst,
}

/// What a pipeline says of itself.
pub(crate) enum Trouble {
    /// An error: the message, and details for developers.
    Error(String),
    End,
}

const STATE_NULL: c_int = 1;
const STATE_PLAYING: c_int = 4;
const MESSAGE_EOS: c_int = 1;
const MESSAGE_ERROR: c_int = 2;

impl Pipeline {
    /// Builds a pipeline from a description in `gst-launch` syntax, and starts it.
    pub(crate) fn launch(gst: &'static Gst, description: &str) -> Result<Pipeline, String> {
        let text = CString::new(description).map_err(|_| "an address with a zero byte")?;
        let mut error = std::ptr::null_mut();
        // SAFETY: a C string and a place for the error. The element's first reference is floating: whether it or an error or
        // both come back, each is owned below.
        let object = unsafe { (gst.f.gst_parse_launch)(text.as_ptr(), &mut error) };
        if !error.is_null() || object.is_null() {
            if !object.is_null() {
                drop(Owned { gst, object });
            }
            return Err(gst.take_error(error));
        }
        let pipeline = Owned { gst, object };
        // SAFETY: a live pipeline and a C string; both calls return a reference of their own, or null.
        let (sink, bus) = unsafe {
            ((gst.f.gst_bin_get_by_name)(object, c"sink".as_ptr()), (gst.f.gst_element_get_bus)(object))
        };
        if sink.is_null() || bus.is_null() {
            return Err("the pipeline has no sink".into());
        }
        let pipeline =
            Pipeline { sink: Owned { gst, object: sink }, bus: Owned { gst, object: bus }, pipeline, gst };
        // SAFETY: a live element. The change may go on in the background.
        if unsafe { (gst.f.gst_element_set_state)(object, STATE_PLAYING) } == 0 {
            return Err(match pipeline.trouble() {
                Some(Trouble::Error(e)) => e,
                _ => "the pipeline does not start".into(),
            });
        }
        Ok(pipeline)
    }

    /// The next picture, waiting at most `wait`.
    pub(crate) fn pull(&self, wait: Duration) -> Option<Sample> {
        let wait = wait.as_nanos().min(u128::from(u64::MAX / 2)) as u64;
        // SAFETY: a live appsink; a sample that comes back is ours.
        let sample = unsafe { (self.gst.f.gst_app_sink_try_pull_sample)(self.sink.object, wait) };
        Sample::new(self.gst, sample)
    }

    /// Whether the last picture was the last.
    pub(crate) fn ended(&self) -> bool {
        // SAFETY: a live appsink.
        unsafe { (self.gst.f.gst_app_sink_is_eos)(self.sink.object) != 0 }
    }

    /// An error or the end, if the pipeline has said so.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let f = &self.gst.f;
        let pop = |kind: c_int| {
            // SAFETY: a live bus; a message that comes back is ours.
            unsafe { (f.gst_bus_timed_pop_filtered)(self.bus.object, 0, kind) }
        };
        let message = pop(MESSAGE_ERROR);
        if !message.is_null() {
            let (mut error, mut debug) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: an error message, as asked for; what is parsed from it is ours and freed, then the message is.
            let (text, details) = unsafe {
                (f.gst_message_parse_error)(message, &mut error, &mut debug);
                let both = (self.gst.take_error(error), self.gst.take_text(debug));
                (f.gst_mini_object_unref)(message);
                both
            };
            let last = details.lines().last().unwrap_or_default().trim();
            return Some(Trouble::Error(if last.is_empty() { text } else { format!("{text} ({last})") }));
        }
        let message = pop(MESSAGE_EOS);
        if message.is_null() {
            return None;
        }
        // SAFETY: our message, given back once.
        unsafe { (f.gst_mini_object_unref)(message) };
        Some(Trouble::End)
    }

    /// The clock's time at which the pipeline's own time began, in nanoseconds.
    pub(crate) fn base_time(&self) -> u64 {
        // SAFETY: a live element.
        unsafe { (self.gst.f.gst_element_get_base_time)(self.pipeline.object) }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: a live element, stopped before its last reference goes.
        unsafe { (self.gst.f.gst_element_set_state)(self.pipeline.object, STATE_NULL) };
    }
}

/// What a sample's caps say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Caps {
    pub(crate) format: String,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) fps: f64,
    pub(crate) colorimetry: String,
}

/// A picture, mapped for reading.
pub(crate) struct Sample {
    gst: &'static Gst,
    sample: Object,
    buffer: Object,
    map: MapInfo,
}

// SAFETY: see the module's second invariant; a mapping for reading may be read and undone from any thread.
unsafe impl Send for Sample {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Sample {}

impl Sample {
    fn new(gst: &'static Gst, sample: Object) -> Option<Sample> {
        if sample.is_null() {
            return None;
        }
        let mut map = MapInfo {
            memory: std::ptr::null_mut(),
            flags: 0,
            data: std::ptr::null(),
            size: 0,
            maxsize: 0,
            user_data: [std::ptr::null_mut(); 4],
            reserved: [std::ptr::null_mut(); 4],
        };
        // SAFETY: the sample is ours; its buffer lives as long as it does. Flag 1 maps for reading.
        unsafe {
            let buffer = (gst.f.gst_sample_get_buffer)(sample);
            if buffer.is_null() || (gst.f.gst_buffer_map)(buffer, &mut map, 1) == 0 {
                (gst.f.gst_mini_object_unref)(sample);
                return None;
            }
            Some(Sample { gst, sample, buffer, map })
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.map.data.is_null() {
            return &[];
        }
        // SAFETY: mapped for reading until this is dropped, and GStreamer's buffers are not written while they are shared.
        unsafe { std::slice::from_raw_parts(self.map.data, self.map.size) }
    }

    /// Its time in the pipeline, in nanoseconds.
    pub(crate) fn pts(&self) -> Option<u64> {
        // SAFETY: a live buffer, whose head has this layout.
        let pts = unsafe { (*self.buffer.cast::<BufferHead>()).pts };
        (pts != u64::MAX).then_some(pts)
    }

    /// Where its planes lie, if it says so: offsets and strides.
    pub(crate) fn planes(&self) -> Option<([usize; 4], [usize; 4])> {
        // SAFETY: a live buffer; the meta, if there is one, lives as long as the buffer and has this layout.
        unsafe {
            let meta = (self.gst.f.gst_buffer_get_video_meta)(self.buffer);
            (!meta.is_null())
                .then(|| ((*meta).offset, (*meta).stride.map(|s| usize::try_from(s).unwrap_or(0))))
        }
    }

    pub(crate) fn caps(&self) -> Option<Caps> {
        let f = &self.gst.f;
        // SAFETY: the sample is live; caps, structure and texts belong to it; places for numbers are ours.
        unsafe {
            let caps = (f.gst_sample_get_caps)(self.sample);
            if caps.is_null() {
                return None;
            }
            let s = Structure {
                gst: self.gst,
                object: (f.gst_caps_get_structure)(caps, 0),
                of: PhantomData::<&Sample>,
            };
            if s.object.is_null() {
                return None;
            }
            let (mut n, mut d) = (0, 0);
            let has_rate =
                (f.gst_structure_get_fraction)(s.object, c"framerate".as_ptr(), &mut n, &mut d) != 0;
            Some(Caps {
                format: s.text(c"format"),
                width: s.number(c"width"),
                height: s.number(c"height"),
                fps: if has_rate && d > 0 { f64::from(n) / f64::from(d) } else { 0.0 },
                colorimetry: s.text(c"colorimetry"),
            })
        }
    }
}

struct Structure<'a> {
    gst: &'static Gst,
    object: Object,
    of: PhantomData<&'a Sample>,
}

impl Structure<'_> {
    fn text(&self, key: &CStr) -> String {
        // SAFETY: a live structure and a C string; the text belongs to the structure and is copied.
        unsafe {
            let found = (self.gst.f.gst_structure_get_string)(self.object, key.as_ptr());
            if found.is_null() { String::new() } else { CStr::from_ptr(found).to_string_lossy().into_owned() }
        }
    }

    fn number(&self, key: &CStr) -> usize {
        let mut found = 0;
        // SAFETY: a live structure, a C string, and a place for the number.
        unsafe { (self.gst.f.gst_structure_get_int)(self.object, key.as_ptr(), &mut found) };
        usize::try_from(found).unwrap_or(0)
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        // SAFETY: undoes the mapping made in `new`, then gives back the reference that holds the buffer.
        unsafe {
            (self.gst.f.gst_buffer_unmap)(self.buffer, &mut self.map);
            (self.gst.f.gst_mini_object_unref)(self.sample);
        }
    }
}
