//! How well a detector finds what people have marked: COCO's mean average precision.
//!
//! * [`Dataset`]: the ground truth, read from a COCO annotation file.
//! * [`Detection`]: one found box, keyed by COCO's image and category ids, read from and written to COCO's results format.
//! * [`evaluate`]: both together give [`Metrics`].
//!
//! The rules are those of the COCO detection challenge as pycocotools 2.0.11 (`COCOeval`, `iouType='bbox'`) applies them;
//! `tests/coco_reference.rs` holds its numbers for the same boxes.

mod classes;
mod dataset;
mod locate;
mod matching;
mod metrics;
pub mod simulated;

pub use classes::class_categories;
pub use dataset::{Annotation, Category, Dataset, Detection, ImageInfo, read_detections, write_detections};
pub use locate::locate_images;
pub use metrics::{ClassMetrics, Metrics, evaluate};
