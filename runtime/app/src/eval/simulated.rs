//! Ground truth of the simulated camera: frames bring it with them.

use super::{Annotation, Category, Dataset, ImageInfo};
use crate::{Error, ErrorKind, Image, Result};
use saltica_pipeline::source::sim::{Class, SimClip, Truth};
use std::path::Path;

/// Reads a list of frames: lines `FRAME ADDRESS` such as `90 sim:street?seed=7`; empty lines do not count. Of these,
/// every `every`-th one from the first on.
///
/// # Errors
/// A file that cannot be read or holds no frame, and a line that is none, with its number.
pub fn read_list(path: &Path, every: usize) -> Result<Vec<SimClip>> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, &e))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let clip = |(i, line): (usize, &str)| {
        let bad =
            |why: String| Error::new(ErrorKind::Format, format!("{}, line {}: {why}", path.display(), i + 1));
        let (number, address) =
            line.trim().split_once(' ').and_then(|(n, a)| Some((n.parse().ok()?, a.trim()))).ok_or_else(
                || bad(format!("{line:?} is no frame: FRAME sim:SCENE?key=value&... expected")),
            )?;
        Ok(SimClip::parse(address).map_err(|e| bad(e.to_string()))?.single(number))
    };
    let clips: Vec<SimClip> = lines.step_by(every.max(1)).map(clip).collect::<Result<_>>()?;
    if clips.is_empty() {
        return Err(Error::new(ErrorKind::Format, format!("{} lists no frame", path.display())));
    }
    Ok(clips)
}

/// A data set without pictures yet, with the classes of the simulated camera that a model with these labels can find.
/// Where it knows none of them by name, all count: then they may be its classes by place.
pub fn categories(labels: &[String]) -> Dataset {
    let all = || Class::ALL.iter().map(|c| Category { id: id(*c), name: c.name().to_owned() });
    let known = |c: &Category| labels.contains(&c.name);
    let mut dataset = Dataset { categories: all().filter(known).collect(), ..Dataset::default() };
    if dataset.categories.is_empty() {
        dataset.categories = all().collect();
    }
    let missing: Vec<String> = all().filter(|c| !dataset.categories.contains(c)).map(|c| c.name).collect();
    if !missing.is_empty() {
        dataset.warnings.push(format!("the model has no class {}: left out", missing.join(", ")));
    }
    dataset
}

/// Adds a frame, and gives its image id. Objects that the camera marks to be ignored count as crowds.
pub fn add(dataset: &mut Dataset, clip: &SimClip, picture: &Image, truth: &Truth) -> i64 {
    let image_id = dataset.images.len() as i64 + 1;
    dataset.images.push(ImageInfo {
        id: image_id,
        file_name: clip.single(truth.frame).to_string(),
        width: Some(picture.width() as u32),
        height: Some(picture.height() as u32),
    });
    for o in &truth.objects {
        let category_id = id(o.class);
        if dataset.categories.iter().any(|c| c.id == category_id) {
            let b = &o.bbox;
            dataset.annotations.push(Annotation {
                image_id,
                category_id,
                bbox: [b.x0, b.y0, b.width(), b.height()].map(f64::from),
                area: f64::from(b.area()),
                crowd: o.ignore,
            });
        }
    }
    image_id
}

/// As in the data sets that `saltica sim --coco` writes.
fn id(class: Class) -> i64 {
    class.id() as i64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_frames() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.txt");
        std::fs::write(&path, "5 sim:street?seed=7\n\n6 sim:street?seed=7\n7 sim:crowded\n").unwrap();
        let all = read_list(&path, 1).unwrap();
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            ["sim:street?seed=7&first=5", "sim:street?seed=7&first=6", "sim:crowded?seed=1&first=7"]
        );
        assert_eq!(read_list(&path, 2).unwrap(), [all[0].clone(), all[2].clone()]);
        for (text, part) in [
            ("5 sim:street\nx sim:street", "line 2: \"x sim:street\" is no frame"),
            ("5 sim:stret", "line 1: unknown scene"),
            ("\n", "lists no frame"),
        ] {
            std::fs::write(&path, text).unwrap();
            let e = read_list(&path, 1).unwrap_err().to_string();
            assert!(e.contains(part), "{e}");
        }
    }

    #[test]
    fn classes_that_a_model_lacks_are_left_out_aloud() {
        let labels = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let some = categories(&labels(&["cat", "dog", "person"]));
        let names: Vec<&str> = some.categories.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["person", "dog"]);
        assert_eq!((some.categories[1].id, some.warnings.len()), (8, 1));
        assert_eq!(categories(&[]).categories.len(), 8);
        assert!(categories(&[]).warnings.is_empty());
    }
}
