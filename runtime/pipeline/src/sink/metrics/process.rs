//! The process as Prometheus' client libraries name its numbers
//! (<https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>), from `/proc/self`.

use super::Scrape;

/// Adds memory, processor time, descriptors, threads and start time. What `/proc` does not tell is left out.
pub fn process(out: &mut Scrape) {
    let page = rustix::param::page_size() as f64;
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, the name, may hold spaces and brackets; `man 5 proc` numbers fields from 1.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let field = |n: usize| fields.get(n - 3).and_then(|t| t.parse::<f64>().ok());
    if let (Some(user), Some(system)) = (field(14), field(15)) {
        let help = "Total user and system CPU time spent in seconds.";
        out.counter("process_cpu_seconds_total", help, &[], (user + system) / ticks);
    }
    let boot = std::fs::read_to_string("/proc/stat").ok().and_then(|t| {
        let line = t.lines().find_map(|l| l.strip_prefix("btime "))?;
        line.trim().parse::<f64>().ok()
    });
    if let (Some(start), Some(boot)) = (field(22), boot) {
        let help = "Start time of the process since unix epoch in seconds.";
        out.gauge("process_start_time_seconds", help, &[], boot + start / ticks);
    }
    for (n, name, help, unit) in [
        (20, "process_threads", "Number of OS threads in the process.", 1.0),
        (23, "process_virtual_memory_bytes", "Virtual memory size in bytes.", 1.0),
        (24, "process_resident_memory_bytes", "Resident memory size in bytes.", page),
    ] {
        if let Some(value) = field(n) {
            out.gauge(name, help, &[], value * unit);
        }
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // The listing itself is one of them.
        let open = open.count().saturating_sub(1) as f64;
        out.gauge("process_open_fds", "Number of open file descriptors.", &[], open);
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit {
        out.gauge("process_max_fds", "Maximum number of open file descriptors.", &[], limit as f64);
    }
}

/// Adds the program's version.
pub fn build(out: &mut Scrape) {
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("arch", std::env::consts::ARCH)];
    out.gauge("saltica_build_info", "Version of the program; always 1.", &labels, 1.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_this_process() {
        let mut s = Scrape::default();
        process(&mut s);
        build(&mut s);
        let text = s.finish();
        let value = |name: &str| -> f64 {
            let line =
                text.lines().find(|l| l.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("{name}"));
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(value("process_cpu_seconds_total") < 1e6);
        assert!((now - value("process_start_time_seconds")).abs() < 86_400.0);
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!(value("process_open_fds") >= 3.0 && value("process_open_fds") <= value("process_max_fds"));
        assert!(value("process_threads") >= 2.0);
        assert!(text.contains("saltica_build_info{version=\""));
    }
}
