//! "Did you mean": for words that are not among the known ones.

/// ": did you mean 'x'?" when one known word is near, else the list of them.
pub fn advice(word: &str, known: &[&str]) -> String {
    match known.iter().map(|k| (strsim::levenshtein(word, k), *k)).min() {
        Some((d, k)) if d <= 1 + word.len() / 3 => format!(": did you mean '{k}'?"),
        _ => format!(": expected one of {}", known.join(", ")),
    }
}
