//! The truth about a frame: what is in it and where.

/// The classes of the simulated camera, in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// On foot or riding a bicycle.
    Person,
    /// With or without a rider; a rider is a person of his own.
    Bicycle,
    /// Saloon, hatchback, estate or off-roader.
    Car,
    /// City bus.
    Bus,
    /// Lorry with a box, tarpaulin, flat bed or tank.
    Truck,
    /// The head with its three lamps, without the post.
    TrafficLight,
    /// A traffic sign's plate, without the post.
    Sign,
    /// A dog.
    Dog,
}

impl Class {
    /// All classes in the order of their ids.
    pub const ALL: [Class; 8] = [
        Class::Person,
        Class::Bicycle,
        Class::Car,
        Class::Bus,
        Class::Truck,
        Class::TrafficLight,
        Class::Sign,
        Class::Dog,
    ];

    /// The id, from 0.
    pub fn id(self) -> usize {
        self as usize
    }

    /// The name, as in labels: COCO's where COCO has the class.
    pub fn name(self) -> &'static str {
        ["person", "bicycle", "car", "bus", "truck", "traffic light", "sign", "dog"][self.id()]
    }
}

/// A box in pixels: edges, not pixel indices; `x0 < x1` unless empty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PixelBox {
    /// Left edge.
    pub x0: f32,
    /// Top edge.
    pub y0: f32,
    /// Right edge.
    pub x1: f32,
    /// Bottom edge.
    pub y1: f32,
}

impl PixelBox {
    /// Width in pixels.
    pub fn width(&self) -> f32 {
        (self.x1 - self.x0).max(0.0)
    }

    /// Height in pixels.
    pub fn height(&self) -> f32 {
        (self.y1 - self.y0).max(0.0)
    }

    /// Area in square pixels.
    pub fn area(&self) -> f32 {
        self.width() * self.height()
    }

    /// Intersection over union with another box.
    pub fn iou(&self, o: &PixelBox) -> f32 {
        let w = (self.x1.min(o.x1) - self.x0.max(o.x0)).max(0.0);
        let h = (self.y1.min(o.y1) - self.y0.max(o.y0)).max(0.0);
        let both = w * h;
        let any = self.area() + o.area() - both;
        if any > 0.0 { both / any } else { 0.0 }
    }
}

/// An object of a class in a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TruthObject {
    /// What it is.
    pub class: Class,
    /// Extent of its visible pixels: what an annotator draws. Shadows and the glow of lamps do not count.
    pub bbox: PixelBox,
    /// Extent of all its pixels within the frame, as if nothing stood before it.
    pub full: PixelBox,
    /// Visible pixels over all its pixels within the frame, 0..=1.
    pub visibility: f32,
    /// Share of its surface (of the mesh's vertices; for bicycle and rider together) that lies outside of the frame,
    /// 0..=1.
    pub truncation: f32,
    /// Stays the same while the object lives; never given to another.
    pub track: u64,
    /// Velocity of its middle in the picture, pixels per second to the right and down, without camera shake.
    pub velocity: (f32, f32),
    /// Hardly visible (under 15 %), almost all outside of the frame (over 90 %) or tiny (a side under 4 pixels or an area
    /// under 32): a detector is neither asked to find it nor blamed if it does.
    pub ignore: bool,
}

/// The truth about a frame.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Truth {
    /// Number of the frame.
    pub frame: u64,
    /// Every object with at least one visible pixel, nearest last.
    pub objects: Vec<TruthObject>,
}
