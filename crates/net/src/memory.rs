//! The memory that this process may have: the host's, its control group's, or its own bound, whichever is
//! least. Also the release of memory that the allocator keeps.

use std::ffi::{CStr, c_uint};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::{from_ref, null_mut};
use std::sync::LazyLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::process::{Resource, getrlimit};

use crate::clock;

/// Bytes of memory that this process may have: those of the host, of its control group, or its own bound
/// (RLIMIT_AS), whichever is least. None if the host does not report it.
pub fn limit() -> Option<u64> {
    let host = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").ok();
    let group = groups.and_then(|text| of_groups(&text, Path::new("/sys/fs/cgroup")));
    [host, group, getrlimit(Resource::As).current].into_iter().flatten().min()
}

/// The monotonic time at which a thread last reported that it had worked (ns).
static WORKED_AT_NS: AtomicU64 = AtomicU64::new(0);
/// The time without such a report after which the process is idle. It is longer than the interval between the
/// reports of a thread that works on.
const IDLE_AFTER_NS: u64 = 3_000_000_000;

/// Returns unused memory of the allocator to the host. A thread calls it again and again, with `worked` if it
/// has worked since its last call.
///
/// The allocator returns memory only while it is asked for some, and it keeps a few freed blocks of each size
/// for each thread. An idle thread would keep those for ever, and the memory around them. While any thread
/// works, only memory that was freed a while ago is returned, since the rest is soon used again. Once none
/// does, all of it is, whichever thread freed it: a thread often frees memory of another one, or of one that
/// has ended.
pub fn give_back(worked: bool) {
    let now_ns = clock::mono_ns();
    if worked {
        WORKED_AT_NS.store(now_ns, Relaxed);
    } else {
        control(c"thread.tcache.flush", None);
    }
    // 4096 stands for every arena (jemalloc(3), MALLCTL_ARENAS_ALL).
    match now_ns.saturating_sub(WORKED_AT_NS.load(Relaxed)) {
        0..IDLE_AFTER_NS => control(c"arena.4096.decay", None),
        _ => control(c"arena.4096.purge", None),
    }
}

/// The most arenas of the allocator (`narenas` in .cargo/config.toml).
const MOST_ARENAS: usize = 8;
/// The number of arenas that workers and the threads of the pool use: one for each processor.
static ARENAS: LazyLock<u32> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(processors.min(MOST_ARENAS)).unwrap_or(1)
});
/// The number of threads that have joined an arena.
static JOINED: AtomicU32 = AtomicU32::new(0);

/// Makes this thread allocate from an arena that it shares with others. Call it at the thread's start.
///
/// The allocator gives each of the first eight threads an arena of its own. After a crowd each arena keeps
/// partly used pages for each size of blocks. Threads that cannot run at the same time gain nothing from
/// arenas of their own.
pub(crate) fn join_arena() {
    control(c"thread.arena", Some(JOINED.fetch_add(1, Relaxed) % *ARENAS));
}

/// Has the allocator run the control `name`, with a value if it takes one (jemalloc(3), MALLCTL NAMESPACE).
fn control(name: &CStr, value: Option<c_uint>) {
    let (start, len) = match &value {
        Some(value) => (from_ref(value).cast_mut().cast(), size_of::<c_uint>()),
        None => (null_mut(), 0),
    };
    // SAFETY: the name ends in a zero. It and the value are only read, and during the call alone. A control
    // without a value takes null pointers. Any thread may call it at any time. A program with another
    // allocator has no such memory to return.
    #[allow(unsafe_code)]
    let status = unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), null_mut(), null_mut(), start, len) };
    debug_assert_eq!(status, 0, "{name:?}");
}

/// MemTotal of /proc/meminfo.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The lowest bound of the control groups in `text` (proc(5), /proc/pid/cgroup) and of their parents.
fn of_groups(text: &str, root: &Path) -> Option<u64> {
    let mut least = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (base, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            list if list.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // A container may see its own group as the root, under a name from the host.
        let mut group: PathBuf = path.trim_start_matches('/').into();
        loop {
            let bound = fs::read_to_string(base.join(&group).join(file)).ok();
            let bound = bound.and_then(|text| text.trim().parse::<u64>().ok());
            least = [least, bound].into_iter().flatten().min();
            if !group.pop() {
                break;
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_host_is_read() {
        assert_eq!(total("MemTotal:        8000 kB\nMemFree: 5 kB\n"), Some(8_192_000));
        assert!(limit().is_some_and(|bytes| bytes > 1 << 20));
    }

    fn resident() -> usize {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
    }

    #[test]
    fn what_others_have_freed_of_a_thread_goes_back_to_the_host() {
        const BLOCK: usize = 1 << 20;
        const COUNT: usize = 64;
        // SAFETY: a block of that size, or null, which is not written to.
        #[allow(unsafe_code)]
        let block = |_| unsafe {
            let start = tikv_jemalloc_sys::malloc(BLOCK).cast::<u8>();
            assert!(!start.is_null());
            start.write_bytes(1, BLOCK);
            start as usize
        };
        let blocks: Vec<usize> = (0..COUNT).map(block).collect();
        let elsewhere = std::thread::spawn(move || {
            for start in blocks {
                // SAFETY: the allocator gave it, and nobody has freed it.
                #[allow(unsafe_code)]
                unsafe {
                    tikv_jemalloc_sys::free(start as *mut _);
                }
            }
        });
        elsewhere.join().unwrap();
        let kept = resident();
        give_back(false);
        assert!(resident() + COUNT / 2 * BLOCK < kept, "{kept} bytes before, {} after", resident());
    }

    #[test]
    fn the_least_bound_of_a_group_and_those_around_it_counts() {
        let root = std::env::temp_dir().join(format!("trunkline-groups-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/memory.max", "500\n");
        write("a/b/memory.max", "max\n");
        write("memory/c/memory.limit_in_bytes", "400\n");
        assert_eq!(of_groups("0::/a/b\n", &root), Some(500));
        assert_eq!(of_groups("0::/a\n4:cpu,memory:/c/d\n", &root), Some(400));
        assert_eq!(of_groups("0::/elsewhere\n", &root), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
