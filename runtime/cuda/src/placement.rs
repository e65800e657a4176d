//! Which kind of memory holds what, chosen by what a device says of itself, never by its name.
//!
//! NVIDIA's rules for boards whose CPU and GPU share the memory ("CUDA for Tegra", memory types): the GPU does not cache
//! page-locked host memory, so weights and what flows between layers are in device memory everywhere; what is read once, in
//! order, may be read in place; managed memory is kept coherent by software before Thor, with delays nobody can foresee.

use crate::driver::Attributes;
use std::fmt;

/// The kinds of devices that memory behaves alike on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Shares memory with a CPU whose caches it does not see (Nano, TX2).
    SharedNonCoherent,
    /// Shares memory and sees the CPU's caches (Xavier, Orin).
    SharedIoCoherent,
    /// Shares memory, both see each other's caches (Thor).
    SharedCoherent,
    /// Has memory of its own.
    Discrete,
}

/// How a run's input gets to the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputPath {
    /// Page-locked staging, copied by the copy engine.
    Copied,
    /// Page-locked and mapped: the first kernel reads it in place.
    Mapped,
    /// Managed: one address, moved by the driver.
    Managed,
}

/// What `--memory` may say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryMode {
    /// As the table says.
    #[default]
    Auto,
    /// Device memory, inputs copied.
    Device,
    /// Inputs read in place from page-locked memory.
    Mapped,
    /// Inputs in managed memory.
    Managed,
}

/// A choice with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The kind of device.
    pub class: Class,
    /// How inputs get there.
    pub input: InputPath,
    /// Why, in words.
    pub reason: String,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::SharedNonCoherent => "shared memory, not coherent",
            Class::SharedIoCoherent => "shared memory, I/O-coherent",
            Class::SharedCoherent => "shared memory, coherent",
            Class::Discrete => "memory of its own",
        })
    }
}

/// The kind of a device.
pub fn classify(a: &Attributes) -> Class {
    match (a.integrated, a.pageable, a.capability >= (7, 2)) {
        (false, ..) => Class::Discrete,
        (true, true, _) => Class::SharedCoherent,
        (true, false, true) => Class::SharedIoCoherent,
        (true, false, false) => Class::SharedNonCoherent,
    }
}

impl Placement {
    /// What the table says for a device, or what was asked for where the device can do it.
    pub fn choose(a: &Attributes, mode: MemoryMode) -> Placement {
        let class = classify(a);
        let (input, reason) = match (mode, class) {
            (MemoryMode::Mapped, _) if a.map_host => (InputPath::Mapped, "asked for".to_owned()),
            (MemoryMode::Mapped, _) => {
                (InputPath::Copied, "mapped memory was asked for, the device cannot map host memory".into())
            }
            (MemoryMode::Managed, _) if a.managed => (InputPath::Managed, "asked for".into()),
            (MemoryMode::Managed, _) => {
                (InputPath::Copied, "managed memory was asked for, the device has none".into())
            }
            (MemoryMode::Device, _) => (InputPath::Copied, "asked for".into()),
            (MemoryMode::Auto, Class::Discrete) => (
                InputPath::Copied,
                "not integrated: the copy engine is faster than reads over the bus".into(),
            ),
            (MemoryMode::Auto, Class::SharedNonCoherent) => (
                InputPath::Copied,
                "integrated, compute capability below 7.2: page-locked memory is uncached for the CPU".into(),
            ),
            (MemoryMode::Auto, Class::SharedIoCoherent | Class::SharedCoherent) if a.map_host => (
                InputPath::Mapped,
                "integrated and coherent: the first kernel reads the input once, in order, where it lies"
                    .into(),
            ),
            (MemoryMode::Auto, _) => {
                (InputPath::Copied, "integrated, but the device cannot map host memory".into())
            }
        };
        Placement { class, input, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(integrated: bool, capability: (i32, i32), pageable: bool, map_host: bool) -> Attributes {
        Attributes {
            name: "x".into(),
            driver: 12_060,
            capability,
            multiprocessors: 8,
            shared_per_block: 163 << 10,
            l2_bytes: 2 << 20,
            memory_bytes: 8 << 30,
            integrated,
            map_host,
            managed: true,
            concurrent_managed: pageable,
            pageable,
            host_register: true,
            pools: true,
        }
    }

    #[test]
    fn boards_fall_into_their_classes() {
        for (integrated, capability, pageable, class, input) in [
            (true, (5, 3), false, Class::SharedNonCoherent, InputPath::Copied),
            (true, (7, 2), false, Class::SharedIoCoherent, InputPath::Mapped),
            (true, (8, 7), false, Class::SharedIoCoherent, InputPath::Mapped),
            (true, (11, 0), true, Class::SharedCoherent, InputPath::Mapped),
            (false, (9, 0), false, Class::Discrete, InputPath::Copied),
            // A server whose discrete GPU reads pageable memory stays discrete.
            (false, (9, 0), true, Class::Discrete, InputPath::Copied),
        ] {
            let p = Placement::choose(&device(integrated, capability, pageable, true), MemoryMode::Auto);
            assert_eq!((p.class, p.input), (class, input), "{capability:?}");
        }
    }

    #[test]
    fn what_was_asked_for_stands_where_the_device_can() {
        let orin = device(true, (8, 7), false, true);
        let choose = |a: &Attributes, m| Placement::choose(a, m).input;
        assert_eq!(choose(&orin, MemoryMode::Device), InputPath::Copied);
        assert_eq!(choose(&orin, MemoryMode::Managed), InputPath::Managed);
        let unmappable = device(true, (8, 7), false, false);
        assert_eq!(choose(&unmappable, MemoryMode::Mapped), InputPath::Copied);
        assert!(Placement::choose(&unmappable, MemoryMode::Mapped).reason.contains("cannot map"));
        assert_eq!(choose(&unmappable, MemoryMode::Auto), InputPath::Copied);
    }
}
