use serde::Serialize;
use std::collections::HashMap;

/// Time of one step of a plan, over all profiled runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepTime {
    /// Name of the graph's node.
    pub name: String,
    /// Kind of op after fusion.
    pub op: String,
    /// Which kernel ran.
    pub kernel: String,
    /// Dtype and shape of its first output.
    pub output: String,
    /// Multiply-adds of one run, 0 where the op has no formula.
    pub macs: u64,
    /// Milliseconds per run (mean).
    pub ms: f64,
    /// Milliseconds of the fastest run.
    pub min_ms: f64,
}

/// All steps of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpRow {
    /// Kind of op after fusion.
    pub op: String,
    /// Which kernel ran.
    pub kernel: String,
    /// How many steps of the plan.
    pub steps: usize,
    /// Multiply-adds of one run of all of them, 0 where the op has no formula.
    pub macs: u64,
    /// Milliseconds per run of all of them.
    pub ms: f64,
    /// Their part of all steps' time, 0 to 1.
    pub share: f64,
}

/// Adds steps up by op and kernel, the costliest first (equal ones by name).
pub fn by_op(steps: &[StepTime]) -> Vec<OpRow> {
    let mut rows: HashMap<(&str, &str), OpRow> = HashMap::new();
    for s in steps {
        let row = rows.entry((&s.op, &s.kernel)).or_insert_with(|| OpRow {
            op: s.op.clone(),
            kernel: s.kernel.clone(),
            steps: 0,
            macs: 0,
            ms: 0.0,
            share: 0.0,
        });
        row.steps += 1;
        row.macs += s.macs;
        row.ms += s.ms;
    }
    let total: f64 = steps.iter().map(|s| s.ms).sum();
    let mut rows: Vec<OpRow> = rows.into_values().collect();
    for row in &mut rows {
        row.share = if total > 0.0 { row.ms / total } else { 0.0 };
    }
    rows.sort_by(|a, b| b.ms.total_cmp(&a.ms).then_with(|| (&a.op, &a.kernel).cmp(&(&b.op, &b.kernel))));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_added_up_by_op_and_kernel() {
        let step = |op: &str, kernel: &str, ms| StepTime {
            name: "n".into(),
            op: op.into(),
            kernel: kernel.into(),
            output: "f32 1".into(),
            macs: 7,
            ms,
            min_ms: ms,
        };
        let rows = by_op(&[
            step("Conv", "a", 1.0),
            step("Add", "b", 1.0),
            step("Conv", "a", 5.0),
            step("Conv", "c", 1.0),
        ]);
        let seen: Vec<_> =
            rows.iter().map(|r| (r.op.as_str(), r.kernel.as_str(), r.steps, r.ms, r.share)).collect();
        assert_eq!(
            seen,
            [("Conv", "a", 2, 6.0, 0.75), ("Add", "b", 1, 1.0, 0.125), ("Conv", "c", 1, 1.0, 0.125)]
        );
        assert_eq!(rows[0].macs, 14);
        assert!(by_op(&[]).is_empty());
        assert_eq!(by_op(&[step("Add", "b", 0.0)])[0].share, 0.0);
    }
}
