//! Where a data set's images are.

use super::Dataset;
use crate::{Error, ErrorKind, Result};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Finds each image of `dataset` under `dir`, in the data set's order; None where there is none.
///
/// The name in the annotation file is tried as it stands, then the file of that name in any sub-folder. Links to folders
/// are followed, each folder once.
///
/// # Errors
/// `dir` cannot be read, or several sub-folders have a file of that name and the annotation file does not say which.
pub fn locate_images(dataset: &Dataset, dir: &Path) -> Result<Vec<Option<PathBuf>>> {
    std::fs::read_dir(dir).map_err(|e| Error::io("read the folder", dir, &e))?;
    let mut index = None;
    dataset
        .images
        .iter()
        .map(|image| {
            // A name that leads out of the folder is looked for inside by its last part only.
            let name = Path::new(&image.file_name);
            let inside = name.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
            if inside && dir.join(name).is_file() {
                return Ok(Some(dir.join(name)));
            }
            let index = index.get_or_insert_with(|| index_files(dir));
            let found = name.file_name().and_then(|n| index.get(n)).map_or(&[][..], Vec::as_slice);
            match found {
                [] => Ok(None),
                [one] => Ok(Some(one.clone())),
                many => match many.iter().filter(|p| inside && p.ends_with(name)).collect::<Vec<_>>()[..] {
                    [one] => Ok(Some(one.clone())),
                    _ => Err(Error::new(
                        ErrorKind::Format,
                        format!(
                            "image {} is {} and also {}: give the folder that holds the right one",
                            image.file_name,
                            many[0].display(),
                            many[1].display()
                        ),
                    )),
                },
            }
        })
        .collect()
}

/// Every file under `dir` by name, paths sorted. Folders that cannot be read are passed over: what is needed from them
/// is reported as missing.
fn index_files(dir: &Path) -> HashMap<std::ffi::OsString, Vec<PathBuf>> {
    let mut files: HashMap<_, Vec<PathBuf>> = HashMap::new();
    let (mut folders, mut visited) = (vec![dir.to_owned()], HashSet::new());
    while let Some(folder) = folders.pop() {
        let Ok(real) = folder.canonicalize() else { continue };
        if !visited.insert(real) {
            continue;
        }
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(name) = path.file_name().map(OsStr::to_owned) {
                files.entry(name).or_default().push(path);
            }
        }
    }
    files.values_mut().for_each(|paths| paths.sort());
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::ImageInfo;

    fn dataset(names: &[&str]) -> Dataset {
        let images = names
            .iter()
            .enumerate()
            .map(|(i, n)| ImageInfo { id: i as i64, file_name: (*n).into(), width: None, height: None })
            .collect();
        Dataset { images, ..Dataset::default() }
    }

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a/x.jpg", "a/deep/y.jpg", "b/z.jpg", "c/z.jpg", "top.jpg"] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink("..", dir.path().join("a/loop")).unwrap();
        dir
    }

    #[test]
    fn names_are_found_at_any_depth() {
        let dir = tree();
        let found = locate_images(
            &dataset(&["top.jpg", "x.jpg", "y.jpg", "c/z.jpg", "no.jpg", "../top.jpg"]),
            dir.path(),
        )
        .unwrap();
        let at = |p: &str| Some(dir.path().join(p));
        assert_eq!(
            found,
            [at("top.jpg"), at("a/x.jpg"), at("a/deep/y.jpg"), at("c/z.jpg"), None, at("top.jpg")]
        );
    }

    #[test]
    fn a_name_in_two_folders_is_an_error_that_names_both() {
        let dir = tree();
        let e = locate_images(&dataset(&["z.jpg"]), dir.path()).unwrap_err().to_string();
        assert!(e.contains("b/z.jpg") && e.contains("c/z.jpg"), "{e}");
    }

    #[test]
    fn a_missing_folder_is_an_error_that_names_it() {
        let e = locate_images(&dataset(&[]), Path::new("/no/such/folder")).unwrap_err();
        assert!(e.to_string().contains("/no/such/folder"), "{e}");
    }
}
