//! COCO's JSON: annotation files and result files (<https://cocodataset.org/#format-data>, `#format-results`).

use crate::output::NewFile;
use crate::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::Path;

/// One picture of a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageInfo {
    /// COCO's id.
    pub id: i64,
    /// File name, possibly with a folder before it.
    pub file_name: String,
    /// Width in pixels, if the file says so.
    pub width: Option<u32>,
    /// Height in pixels, if the file says so.
    pub height: Option<u32>,
}

/// One class of objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Category {
    /// COCO's id (1..90 with gaps in COCO itself). A model's class index `i` is the `i`-th category of the file.
    pub id: i64,
    /// Name.
    pub name: String,
}

/// One marked object.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// The image it is in.
    pub image_id: i64,
    /// Its category.
    pub category_id: i64,
    /// x, y (top-left corner), width, height in pixels.
    pub bbox: [f64; 4],
    /// Area in square pixels: of the object's mask where the file gives one, else of the box.
    pub area: f64,
    /// Whether the box holds a group. Boxes found in it count neither for nor against the detector.
    pub crowd: bool,
}

/// A COCO annotation file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataset {
    /// Images by ascending id.
    pub images: Vec<ImageInfo>,
    /// Categories in the file's order, which is the order of a model's class indices.
    pub categories: Vec<Category>,
    /// Annotations in the file's order.
    pub annotations: Vec<Annotation>,
    /// What was odd in the file and how it was read.
    pub warnings: Vec<String>,
}

/// One box a detector found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// The image it is in.
    #[serde(deserialize_with = "id")]
    pub image_id: i64,
    /// Its category.
    #[serde(deserialize_with = "id")]
    pub category_id: i64,
    /// x, y (top-left corner), width, height in pixels.
    pub bbox: [f64; 4],
    /// Confidence; only its order counts.
    pub score: f64,
}

#[derive(Deserialize)]
struct RawFile {
    images: Option<Vec<RawImage>>,
    categories: Option<Vec<RawCategory>>,
    #[serde(default)]
    annotations: Vec<RawAnnotation>,
}

#[derive(Deserialize)]
struct RawImage {
    #[serde(deserialize_with = "id")]
    id: i64,
    file_name: Option<String>,
    coco_url: Option<String>,
    width: Option<f64>,
    height: Option<f64>,
}

#[derive(Deserialize)]
struct RawCategory {
    #[serde(deserialize_with = "id")]
    id: i64,
    name: Option<String>,
}

#[derive(Deserialize)]
struct RawAnnotation {
    #[serde(deserialize_with = "id")]
    image_id: i64,
    #[serde(deserialize_with = "id")]
    category_id: i64,
    bbox: Option<Vec<f64>>,
    area: Option<f64>,
    #[serde(default, deserialize_with = "flag")]
    iscrowd: bool,
}

/// Integers, also where a spreadsheet or data frame has turned them into `7.0`.
fn id<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<i64, D::Error> {
    let number = serde_json::Number::deserialize(from)?;
    if let Some(i) = number.as_i64() {
        return Ok(i);
    }
    match number.as_f64() {
        Some(f) if f.fract() == 0.0 && f.abs() < 9e15 => Ok(f as i64),
        _ => Err(de::Error::custom(format!("id {number} found, an integer expected"))),
    }
}

/// 0, 1, true, false or null.
fn flag<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<bool, D::Error> {
    match serde_json::Value::deserialize(from)? {
        serde_json::Value::Null => Ok(false),
        serde_json::Value::Bool(b) => Ok(b),
        serde_json::Value::Number(n) => Ok(n.as_f64() != Some(0.0)),
        other => Err(de::Error::custom(format!("iscrowd {other} found, 0 or 1 expected"))),
    }
}

fn bad(what: String) -> Error {
    Error::new(ErrorKind::Format, what)
}

/// Most bytes of an annotation file: four times COCO's largest.
const FILE_LIMIT: u64 = 2 << 30;

fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_LIMIT + 1).read_to_string(&mut text))
        .map_err(|e| Error::io("read", path, &e))?;
    if text.len() as u64 > FILE_LIMIT {
        return Err(bad(format!("{}: more than {FILE_LIMIT} bytes", path.display())));
    }
    Ok(text)
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str, path: &Path, what: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| bad(format!("{} is not {what}: {e}", path.display())))
}

impl Dataset {
    /// Reads an annotation file. Errors if it is no JSON of that form, or if an annotation has no box.
    pub fn read(path: &Path) -> Result<Dataset> {
        let raw: RawFile = parse(&read_text(path)?, path, "a COCO annotation file")?;
        Self::from_raw(raw).map_err(|e| bad(format!("{}: {e}", path.display())))
    }

    /// Parses an annotation file's text.
    pub fn parse(text: &str) -> Result<Dataset> {
        Self::from_raw(parse(text, Path::new("the text"), "a COCO annotation file")?)
    }

    fn from_raw(raw: RawFile) -> Result<Dataset> {
        let mut out = Dataset::default();
        let images =
            raw.images.ok_or_else(|| bad("no `images` list found: is this an annotation file?".into()))?;
        let categories = raw
            .categories
            .ok_or_else(|| bad("no `categories` list found: it gives class indices their ids".into()))?;

        let mut by_id = BTreeMap::new();
        let mut repeated = 0;
        for image in images {
            let name = image
                .file_name
                .or_else(|| image.coco_url.and_then(|u| u.rsplit('/').next().map(str::to_owned)))
                .unwrap_or_else(|| format!("{:012}.jpg", image.id));
            let size = |v: Option<f64>| v.filter(|v| (1.0..=1e9).contains(v)).map(|v| v as u32);
            let info = ImageInfo {
                id: image.id,
                file_name: name,
                width: size(image.width),
                height: size(image.height),
            };
            repeated += by_id.insert(info.id, info).is_some() as usize;
        }
        out.warn(repeated, "image ids that occur more than once: the last entry counts");
        out.images = by_id.into_values().collect();

        let mut seen = HashSet::new();
        for c in categories {
            if !seen.insert(c.id) {
                return Err(bad(format!(
                    "category id {} occurs twice, so class indices have no order",
                    c.id
                )));
            }
            out.categories
                .push(Category { id: c.id, name: c.name.unwrap_or_else(|| format!("category {}", c.id)) });
        }

        let known: HashSet<i64> = out.images.iter().map(|i| i.id).collect();
        let (mut strays, mut strangers, mut empty) = (0, 0, 0);
        for (i, a) in raw.annotations.into_iter().enumerate() {
            let found = a.bbox.as_deref().unwrap_or_default();
            let bbox: [f64; 4] = found.try_into().map_err(|_| {
                bad(format!(
                    "annotation {i} (image {}) has a bbox of {} numbers, expected 4: x, y, width, height",
                    a.image_id,
                    found.len()
                ))
            })?;
            if !known.contains(&a.image_id) {
                strays += 1;
                continue;
            }
            if !seen.contains(&a.category_id) {
                strangers += 1;
                continue;
            }
            empty += (bbox[2] <= 0.0 || bbox[3] <= 0.0) as usize;
            out.annotations.push(Annotation {
                image_id: a.image_id,
                category_id: a.category_id,
                bbox,
                area: a.area.unwrap_or(bbox[2] * bbox[3]),
                crowd: a.iscrowd,
            });
        }
        out.warn(strays, "annotations of images that the file does not list: left out");
        out.warn(strangers, "annotations of categories that the file does not list: left out");
        out.warn(empty, "annotations with an empty box: counted as never found");
        Ok(out)
    }

    fn warn(&mut self, count: usize, what: &str) {
        if count > 0 {
            self.warnings.push(format!("{count} {what}"));
        }
    }

    /// The category of a model's class index; None past the last.
    pub fn category_of_class(&self, class: usize) -> Option<&Category> {
        self.categories.get(class)
    }
}

/// Reads a COCO results file: a list of `{image_id, category_id, bbox, score}`.
pub fn read_detections(path: &Path) -> Result<Vec<Detection>> {
    parse(&read_text(path)?, path, "a COCO results file (a list of {image_id, category_id, bbox, score})")
}

/// Writes a COCO results file, which pycocotools' `loadRes` reads. The file appears whole or not at all.
pub fn write_detections(to: NewFile, detections: &[Detection]) -> Result<()> {
    to.write(|to| serde_json::to_writer(to, detections).map_err(std::io::Error::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_are_filled_in() {
        let d = Dataset::parse(
            r#"{"images": [{"id": 9.0}, {"id": 3, "coco_url": "http://x/a/b.jpg", "width": 4}],
                "categories": [{"id": 2}, {"id": 1, "name": "cat"}],
                "annotations": [{"image_id": 9, "category_id": 1, "bbox": [1, 2, 3, 4]},
                                {"image_id": 3, "category_id": 2, "bbox": [0, 0, 1, 1], "area": 0.5, "iscrowd": true}]}"#,
        )
        .unwrap();
        assert_eq!(d.images[0].file_name, "b.jpg");
        assert_eq!((d.images[0].width, d.images[0].height), (Some(4), None));
        assert_eq!(d.images[1].file_name, "000000000009.jpg");
        assert_eq!(d.category_of_class(0).unwrap().name, "category 2");
        assert_eq!(d.category_of_class(1).unwrap().id, 1);
        assert_eq!(d.category_of_class(2), None);
        assert_eq!((d.annotations[0].area, d.annotations[0].crowd), (12.0, false));
        assert_eq!((d.annotations[1].area, d.annotations[1].crowd), (0.5, true));
        assert!(d.warnings.is_empty());
    }

    #[test]
    fn what_cannot_count_is_left_out_aloud() {
        let d = Dataset::parse(
            r#"{"images": [{"id": 1}, {"id": 1}], "categories": [{"id": 1}],
                "annotations": [{"image_id": 2, "category_id": 1, "bbox": [0, 0, 1, 1]},
                                {"image_id": 1, "category_id": 7, "bbox": [0, 0, 1, 1]},
                                {"image_id": 1, "category_id": 1, "bbox": [0, 0, 0, 1]}]}"#,
        )
        .unwrap();
        assert_eq!((d.images.len(), d.annotations.len()), (1, 1));
        assert_eq!(d.warnings.len(), 4);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, part) in [
            ("[]", "not a COCO annotation file"),
            ("{}", "no `images`"),
            (r#"{"images": []}"#, "no `categories`"),
            (r#"{"images": [{"id": 1.5}], "categories": []}"#, "an integer expected"),
            (r#"{"images": [], "categories": [{"id": 1}, {"id": 1}]}"#, "occurs twice"),
            (
                r#"{"images": [{"id": 1}], "categories": [{"id": 1}], "annotations": [{"image_id": 1, "category_id": 1}]}"#,
                "a bbox of 0 numbers",
            ),
            (
                r#"{"images": [], "categories": [], "annotations": [{"image_id": 1, "category_id": 1, "bbox": [], "iscrowd": "x"}]}"#,
                "0 or 1 expected",
            ),
        ] {
            let e = Dataset::parse(text).unwrap_err();
            assert!(e.to_string().contains(part), "{text}: {e}");
        }
    }

    #[test]
    fn detections_survive_a_round_trip() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dt.json");
        let all = vec![Detection { image_id: 1, category_id: 90, bbox: [0.1, 2.0, 3.25, 4.0], score: 0.3 }];
        write_detections(NewFile::create(&path).unwrap(), &all).unwrap();
        assert_eq!(read_detections(&path).unwrap(), all);
    }
}
