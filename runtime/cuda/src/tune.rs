//! Which tile and split of a convolution is fastest: found by measuring, kept in a file.
//!
//! The model of costs only puts good tiles first; this measures them where they will run. What was found is kept for the
//! device, its driver and these very kernels, one line a convolution's shape, so that models share it. A file that is
//! damaged, foreign or of other kernels is not used and not fatal; nor is a folder that cannot be written.

use crate::driver::Attributes;
use crate::kernels::{sha256, source_hash};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Labels of the fastest ways by convolution.
#[derive(Default)]
pub(crate) struct Tuned {
    ways: Mutex<BTreeMap<String, String>>,
    file: Option<PathBuf>,
    head: String,
}

impl Tuned {
    /// What was found before on this device.
    pub(crate) fn of(a: &Attributes) -> Tuned {
        let identity = format!("{} sm_{} driver {} kernels {}", a.name, a.arch(), a.driver, source_hash());
        let folder = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache")));
        let file = folder
            .map(|f| f.join("saltica").join(format!("tuned-{}.tsv", &sha256(identity.as_bytes())[..16])));
        let head = format!("# saltica tuning: {identity}");
        let ways = file.as_ref().and_then(|f| std::fs::read_to_string(f).ok()).and_then(|t| parse(&t, &head));
        if let (Some(file), Some(ways)) = (&file, &ways) {
            log::debug!("{} tuned convolutions from {}", ways.len(), file.display());
        }
        Tuned { ways: Mutex::new(ways.unwrap_or_default()), file, head }
    }

    /// The fastest way known, by its label.
    pub(crate) fn get(&self, signature: &str) -> Option<String> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner).get(signature).cloned()
    }

    /// Keeps what was found, in memory and, where that works, on disk. Says where.
    pub(crate) fn keep(&self, found: impl IntoIterator<Item = (String, String)>) -> Option<PathBuf> {
        let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        ways.extend(found);
        let file = self.file.as_ref()?;
        let text = render(&self.head, &ways);
        // Written beside and renamed: a reader sees all or nothing.
        let beside = file.with_extension(format!("{}.part", std::process::id()));
        let written = file
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&beside, text))
            .and_then(|()| std::fs::rename(&beside, file));
        match written {
            Ok(()) => Some(file.clone()),
            Err(e) => {
                log::warn!("tuning is not kept: {}: {e}", file.display());
                None
            }
        }
    }
}

fn render(head: &str, ways: &BTreeMap<String, String>) -> String {
    let mut text = format!("{head}\n");
    for (signature, label) in ways {
        let _ = writeln!(text, "{signature}\t{label}");
    }
    let hash = sha256(text.as_bytes());
    let _ = writeln!(text, "# {hash}");
    text
}

/// The lines of a file that is whole and of this device; `None` of any other.
fn parse(text: &str, head: &str) -> Option<BTreeMap<String, String>> {
    let (body, end) = text.trim_end().rsplit_once('\n')?;
    let body = format!("{body}\n");
    if end.strip_prefix("# ")? != sha256(body.as_bytes()) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next()? != head {
        return None;
    }
    lines.map(|l| l.split_once('\t').map(|(s, w)| (s.to_owned(), w.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_trusted_whole_and_of_this_device_only() {
        let ways: BTreeMap<String, String> =
            [("conv a", "x 1"), ("conv b", "y 2")].map(|(s, w)| (s.to_owned(), w.to_owned())).into();
        let text = render("# head", &ways);
        assert_eq!(parse(&text, "# head"), Some(ways));
        assert_eq!(parse(&text, "# other"), None);
        for cut in 0..text.len() - 1 {
            assert_eq!(parse(&text[..cut], "# head"), None, "{cut}");
        }
        assert_eq!(parse(&text.replace("x 1", "x 2"), "# head"), None);
    }
}
