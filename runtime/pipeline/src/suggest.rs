//! "Did you mean": for words that are not among the known ones.

/// ": did you mean 'x'?" when one known word is near, else the list of them.
pub(crate) fn advice(word: &str, known: &[&str]) -> String {
    match known.iter().map(|k| (distance(word, k), *k)).min() {
        Some((d, k)) if d <= 1 + word.len() / 3 => format!(": did you mean '{k}'?"),
        _ => format!(": expected one of {}", known.join(", ")),
    }
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
