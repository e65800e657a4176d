use super::Dataset;
use crate::{Error, ErrorKind, Result};

/// The category id of each class of a model: by place if there are as many classes as categories, else by name.
///
/// By place first, because public models spell some of COCO's names differently (`aeroplane`, `tvmonitor`).
///
/// # Errors
/// The counts differ and some category has no class of its name. Classes without a category are None.
pub fn class_categories(dataset: &Dataset, classes: usize, labels: &[String]) -> Result<Vec<Option<i64>>> {
    let categories = &dataset.categories;
    if categories.len() == classes {
        return Ok(categories.iter().map(|c| Some(c.id)).collect());
    }
    let missing: Vec<&str> =
        categories.iter().map(|c| c.name.as_str()).filter(|n| !labels.iter().any(|l| l == n)).collect();
    if labels.len() != classes || !missing.is_empty() {
        return Err(Error::new(
            ErrorKind::Usage,
            format!(
                "the model has {classes} classes, the annotation file {} categories, and they cannot be brought together by \
                 name (no class is called {}): give the right --labels, or another model",
                categories.len(),
                if missing.is_empty() { "anything".to_owned() } else { missing.join(", ") }
            ),
        ));
    }
    Ok(labels.iter().map(|l| categories.iter().find(|c| c.name == *l).map(|c| c.id)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::Category;
    use super::*;

    fn dataset(names: &[&str]) -> Dataset {
        let categories = names
            .iter()
            .enumerate()
            .map(|(i, n)| Category { id: 10 + i as i64, name: (*n).into() })
            .collect();
        Dataset { categories, ..Dataset::default() }
    }

    fn labels(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn by_place_then_by_name() {
        let d = dataset(&["airplane", "dog"]);
        assert_eq!(class_categories(&d, 2, &labels(&["aeroplane", "dog"])).unwrap(), [Some(10), Some(11)]);
        assert_eq!(class_categories(&d, 2, &[]).unwrap(), [Some(10), Some(11)]);
        let three = labels(&["dog", "cat", "airplane"]);
        assert_eq!(class_categories(&d, 3, &three).unwrap(), [Some(11), None, Some(10)]);
        let e = class_categories(&d, 3, &labels(&["dog", "cat", "aeroplane"])).unwrap_err().to_string();
        assert!(e.contains("3 classes") && e.contains("2 categories") && e.contains("airplane"), "{e}");
        assert!(class_categories(&d, 3, &[]).is_err());
    }
}
