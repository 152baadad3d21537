//! Runs a copy from its beginning to its end. One loop hands out directories to survey and files to copy, and
//! counts the results.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Url;
use client::remote::{Attributes, FileIdentity, Kind, SPECIAL};
use tokio::task::{JoinHandle, JoinSet};

use crate::concurrency::ConcurrencyLimit;
use crate::context::{CopyContext, MANY};
use crate::error::{ErrorContext, Fault, FileResult};
use crate::file;
use crate::hard_links::HardLinks;
use crate::job::{Directory, Job};
use crate::link::Outcome;
use crate::name::{join, split};
use crate::naming::{self, NamedDirectory};
use crate::progress::Progress;
use crate::report::Report;
use crate::retry::patiently;
use crate::sidecar::carry::carry_directory;
use crate::sidecar::silent_losses;
use crate::staged::StagedDirectory;
use crate::survey;
use crate::survey_result::{PriorSurvey, Survey};
use crate::tree::Tree;
use crate::tree::listing::{Listing, TargetName};
use crate::tree::target_attributes::TargetAttributes;
use crate::{Error, Plan, channel_count, name, prescan};

/// The threads that work on files of this host.
const THREADS: usize = 64;
/// The directories surveyed at once.
const SURVEYS: usize = 16;
/// The number of waiting files from which no further directory is surveyed.
const WAITING: usize = 10_000;
/// The files in flight while further sessions are opened.
const MEANWHILE: usize = 128;
/// The directories whose times are set at once.
const SETTLING: usize = 32;

/// Runs `plan` to its end. Faults of single files are in the report, and printed on standard error.
///
/// # Errors
/// When nothing could begin: a server cannot be reached, a log-on is refused, or the source does not
/// exist.
pub fn run(plan: Plan) -> Result<Report, Error> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(THREADS).build();
    let runtime = runtime.map_err(|why| Error::new("starting a runtime", why))?;
    runtime.block_on(go(plan))
}

/// The result of one task.
enum Event {
    Surveyed(Box<Survey>, Directory),
    Copied(Job, FileResult<Outcome>, Duration),
    Named(Box<StagedDirectory>, FileResult<NamedDirectory>),
    Settled(String, FileResult<()>),
}

struct Run {
    shared: Arc<CopyContext>,
    report: Report,
    events: JoinSet<Event>,
    directories: VecDeque<Directory>,
    jobs: VecDeque<Job>,
    /// The knowledge about the root before its survey.
    known: PriorSurvey,
    /// The staged directories by their paths.
    unnamed: HashMap<String, StagedDirectory>,
    surveys: usize,
    copies: usize,
    /// The limit of files in flight.
    crowd: ConcurrencyLimit,
    /// The number of small files found.
    small: usize,
    /// The task that opens further sessions for many small files.
    splitting: Option<JoinHandle<()>>,
    /// The time since which some file has been in flight.
    copying_since: Option<Instant>,
    /// Whether the source is a file itself.
    is_one_file: bool,
    /// The directories that get the times of the source when they are complete.
    touched: Vec<Directory>,
    /// The directories that get them as soon as something has been put into them, by their paths.
    watched: HashMap<String, Directory>,
    /// The files with several names, if hard links are kept.
    twins: HardLinks,
}

async fn go(plan: Plan) -> Result<Report, Error> {
    let begun = Instant::now();
    let ((mut source, found), mut target) = tokio::try_join!(
        SourceRoot::open(&plan),
        Tree::open_for(&plan.target, &plan.target_access, prescan::begin(&plan))
    )?;
    let first = begin(&plan, found, &mut source, &mut target).await?;
    let report = Report::new(&plan);
    let shared = Arc::new(CopyContext::new(plan, source, target, Progress::new()));
    let mut run = Run::new(Arc::clone(&shared), report, matches!(first, First::File { .. }));
    let first = first.arrive(&shared).await?;
    let widening = match shared.plan.channels {
        Some(channels) => {
            channel_count::open(&shared, channels).await;
            None
        }
        None => Some(tokio::spawn(channel_count::run(Arc::clone(&shared)))),
    };
    run.begin_with(first).await;
    run.work().await;
    run.settle().await;
    for beside in widening.into_iter().chain(run.splitting.take()) {
        beside.abort();
    }
    shared.progress.end();
    let mut report = run.report;
    report.source_channels = shared.source.channels();
    report.target_channels = shared.target.channels();
    report.trials = shared.trials();
    report.lost = shared.lost();
    report.at_server = shared.at_server.bytes();
    shared.source.close().await;
    shared.target.close().await;
    report.elapsed = begun.elapsed();
    Ok(report)
}

/// Waits until `task` has ended, or for ever if there is none.
async fn ended(task: &mut Option<JoinHandle<()>>) {
    match task {
        Some(task) => {
            // Its result does not matter.
            let _ = task.await;
        }
        None => std::future::pending().await,
    }
}

/// The root of the source.
struct SourceRoot {
    attributes: Attributes,
    /// Its listing, if it is a directory. A failure is reported when it is listed again.
    listed: Option<Listing>,
}

impl SourceRoot {
    /// Connects to the source and queries it. That takes no time if the connection to the target takes
    /// longer.
    async fn open(plan: &Plan) -> Result<(Tree, SourceRoot), Error> {
        let source = Tree::open(&plan.source, &plan.source_access).await?;
        let looking = || format!("looking at {}", plan.source);
        let missing = || Error::new(looking(), "there is no such file or directory; check the path");
        let attributes = source.stat("").await.doing(looking)?.ok_or_else(missing)?;
        let listed = match attributes.kind {
            Kind::Directory => source.list("").await.ok(),
            _ => None,
        };
        Ok((source, SourceRoot { attributes, listed }))
    }
}

/// The first job of a copy.
enum First {
    Directory(Directory, PriorSurvey),
    /// A single file with its name in the target, and the attributes of the target's file of that name.
    File {
        job: Job,
        there: Option<Attributes>,
    },
}

/// Queries both sides.
async fn begin(plan: &Plan, found: SourceRoot, source: &mut Tree, target: &mut Tree) -> Result<First, Error> {
    let looking = |url: &Url| format!("looking at {url}");
    let SourceRoot { attributes, listed } = found;
    let there = target.stat("").await.doing(|| looking(&plan.target))?;
    match attributes.kind {
        Kind::Directory => {
            if there.is_some_and(|there| there.kind != Kind::Directory) {
                return Err(Error::new(looking(&plan.target), "it is no directory, but the source is one"));
            }
            let (path, from) = Default::default();
            let directory = Directory { path, from, trail: None, attributes, there, restore: None };
            Ok(First::Directory(directory, PriorSurvey { listed, made: None }))
        }
        Kind::File => {
            let name = source.step_up().doing(|| looking(&plan.source))?;
            if plan.mirror {
                return Err(Error::new("--mirror", "the source is a file; give a directory"));
            }
            let into = there.is_some_and(|there| there.kind == Kind::Directory);
            if into {
                let there = target.stat(&name).await.doing(|| looking(&plan.target))?;
                return Ok(First::File {
                    job: Job {
                        from: name.clone(),
                        path: name,
                        attributes,
                        spot: TargetName::of(there),
                        twin: None,
                    },
                    there,
                });
            }
            let path = target.step_up().doing(|| looking(&plan.target))?;
            if !plan.dry_run {
                target.make_root().await.doing(|| format!("making the directory of {}", plan.target))?;
            }
            let job = Job { from: name, path, attributes, spot: TargetName::of(there), twin: None };
            Ok(First::File { job, there })
        }
        Kind::Link | Kind::Other => {
            Err(Error::new(looking(&plan.source), "it is neither a file nor a directory"))
        }
    }
}

impl First {
    /// Creates the root of the target, unless it exists.
    async fn arrive(mut self, shared: &CopyContext) -> Result<First, Error> {
        if let First::Directory(directory, PriorSurvey { listed: Some(listed), made }) = &mut self
            && directory.there.is_none()
            && !shared.plan.dry_run
        {
            let making = || format!("making {}", shared.plan.target);
            *made = Some(naming::make(shared, directory, listed).await.doing(making)?);
        }
        Ok(self)
    }
}

/// Makes a directory of the target like that of the source.
async fn settle_directory(shared: &CopyContext, directory: &Directory) -> FileResult<()> {
    let Directory { path, from, attributes, restore, .. } = directory;
    let like = carry_directory(shared, from, path, attributes).await?;
    let like = TargetAttributes { mode: like.mode.or(*restore), ..like };
    shared.target.settle_directory(path, &like).await
}

/// Does the same, with retries. If that fails, the directory gets its former bits back.
async fn settle_patiently(shared: &CopyContext, directory: Directory) -> FileResult<()> {
    if let Err(fault) = patiently(shared, || settle_directory(shared, &directory)).await {
        restore(shared, vec![directory]).await;
        return Err(fault);
    }
    patiently(shared, || silent_losses::check(shared, &directory.path, &directory.attributes)).await
}

/// Restores the former permission bits of directories when a copy ends early, where that is still possible.
async fn restore(shared: &CopyContext, touched: Vec<Directory>) {
    for Directory { path, restore, .. } in touched {
        if restore.is_some() && !shared.target.is_lost() {
            // The report has the reason why the copy ended.
            let _ = shared
                .target
                .settle_directory(&path, &TargetAttributes { mode: restore, ..TargetAttributes::default() })
                .await;
        }
    }
}

impl Run {
    fn new(shared: Arc<CopyContext>, report: Report, is_one_file: bool) -> Run {
        let crowd = ConcurrencyLimit::new(shared.plan.threads);
        Run {
            shared,
            report,
            events: JoinSet::new(),
            directories: VecDeque::new(),
            jobs: VecDeque::new(),
            known: PriorSurvey::default(),
            unnamed: HashMap::new(),
            surveys: 0,
            copies: 0,
            crowd,
            small: 0,
            splitting: None,
            copying_since: None,
            is_one_file,
            touched: Vec::new(),
            watched: HashMap::new(),
            twins: HardLinks::default(),
        }
    }

    async fn begin_with(&mut self, first: First) {
        match first {
            First::Directory(directory, known) => {
                let counts = &mut self.report.tally.directories;
                counts.total += 1;
                if directory.there.is_some() {
                    counts.skipped += 1;
                }
                self.known = known;
                self.directories.push_back(directory);
            }
            First::File { job, there } => {
                let tally = &mut self.report.tally;
                tally.files.total += 1;
                tally.bytes.total += job.attributes.size;
                let refusal = match self.shared.target.is_share() {
                    true => name::check_for_smb(&job.path).err(),
                    false => None,
                };
                if let Some(why) = refusal {
                    self.fail(&job.path, why);
                    self.report.tally.files.failed += 1;
                } else if there.is_some_and(|there| there.kind != Kind::File) {
                    tally.files.mismatch += 1;
                    tally.bytes.mismatch += job.attributes.size;
                    self.note(&job.path, "not copied: the target has something else of that name");
                } else if there.is_some_and(|there| there.looks_like(&job.attributes)) {
                    tally.files.skipped += 1;
                    tally.bytes.skipped += job.attributes.size;
                } else {
                    self.shared.progress.expect(job.attributes.size);
                    self.jobs.push_back(job);
                }
            }
        }
    }

    /// Hands out work as long as there is any.
    async fn work(&mut self) {
        loop {
            while self.copies < self.most()
                && let Some(job) = self.jobs.pop_front()
            {
                self.copies += 1;
                self.copying_since.get_or_insert_with(Instant::now);
                let shared = Arc::clone(&self.shared);
                self.events.spawn(async move {
                    let since = Instant::now();
                    let copied = match shared.plan.dry_run {
                        true => Ok(Outcome::Made(job.attributes.size)),
                        false => file::copy(&shared, &job).await,
                    };
                    Event::Copied(job, copied, since.elapsed())
                });
            }
            while self.surveys < SURVEYS
                && self.jobs.len() < WAITING
                && let Some(directory) = self.directories.pop_front()
            {
                self.surveys += 1;
                let shared = Arc::clone(&self.shared);
                // The first one is the root.
                let known = std::mem::take(&mut self.known);
                self.events.spawn(async move {
                    let survey = survey::survey(shared, directory.clone(), known).await;
                    Event::Surveyed(Box::new(survey), directory)
                });
            }
            let Run { events, splitting, .. } = self;
            let event = tokio::select! {
                event = events.join_next() => event,
                () = ended(splitting) => {
                    self.splitting = None;
                    continue;
                }
            };
            let Some(event) = event else { return };
            self.take(event);
        }
    }

    /// The limit of files in flight. It is low while further sessions are opened, because files in flight
    /// stay in their session.
    fn most(&self) -> usize {
        let most = self.crowd.size();
        if self.splitting.is_some() { most.min(MEANWHILE) } else { most }
    }

    /// Counts the result of a task.
    fn take(&mut self, event: Result<Event, tokio::task::JoinError>) {
        match event {
            Ok(Event::Surveyed(survey, directory)) => {
                self.surveys -= 1;
                self.surveyed(*survey, directory);
            }
            Ok(Event::Copied(job, copied, took)) => {
                self.copies -= 1;
                if self.copies == 0 {
                    self.report.copying +=
                        self.copying_since.take().map_or(Duration::ZERO, |it| it.elapsed());
                }
                self.copied(&job, copied, took);
            }
            Ok(Event::Named(unnamed, named)) => self.named(*unnamed, named),
            Ok(Event::Settled(path, settled)) => {
                if let Err(fault) = settled {
                    self.fail(&path, format!("it was not made like that of the source: {fault}"));
                    self.report.tally.directories.failed += 1;
                }
            }
            Err(why) => self.give_up(&Fault::Said(format!("a part of the copy ended early: {why}"))),
        }
        let tally = &self.report.tally;
        self.shared.progress.files(tally.files.copied, tally.files.total - tally.files.skipped);
    }

    fn surveyed(&mut self, survey: Survey, mut directory: Directory) {
        directory.restore = survey.opened;
        self.report.tally.add(&survey.tally);
        self.report.deleting += survey.deleting;
        for (path, why) in &survey.failures {
            self.fail(path, why);
        }
        for (path, what) in &survey.notes {
            self.note(path, what);
        }
        for path in &survey.doomed {
            self.note_beyond(path, "would be deleted");
        }
        if let Some(fault) = survey.lost.as_ref().filter(|_| self.shared.is_lost()) {
            self.give_up(fault);
        }
        if self.report.gave_up {
            if let Some(unnamed) = survey.unnamed {
                self.abandon_unnamed(unnamed);
            }
            self.abandon(survey.jobs, survey.directories);
            self.touched.extend(directory.restore.is_some().then_some(directory));
            return;
        }
        let is_small = |job: &&Job| self.shared.is_small(job.attributes.size);
        self.small += survey.jobs.iter().filter(is_small).count();
        let plan = &self.shared.plan;
        if self.small >= MANY && plan.may_split() && self.shared.set_split() {
            let shared = Arc::clone(&self.shared);
            self.splitting = Some(tokio::spawn(async move {
                tokio::join!(shared.source.split(), shared.target.split());
            }));
        }
        let later = survey.unnamed.iter().flat_map(|unnamed| &unnamed.jobs);
        self.shared.progress.expect(survey.jobs.iter().chain(later).map(|job| job.attributes.size).sum());
        if let Some(unnamed) = survey.unnamed {
            match survey.jobs.is_empty() {
                true => self.begin_naming(unnamed),
                false => drop(self.unnamed.insert(unnamed.path.clone(), unnamed)),
            }
            self.jobs.extend(survey.jobs);
            return;
        }
        let differs = directory.there.is_none_or(|there| self.differs(&there, &directory.attributes));
        let is_opened = directory.restore.is_some();
        if is_opened || survey.done && (survey.changes || differs) && directory.attributes.are_known() {
            self.touched.push(directory);
        } else if survey.may_change && directory.attributes.are_known() {
            self.watched.insert(directory.path.clone(), directory);
        }
        self.directories.extend(survey.directories);
        self.admit(survey.jobs, survey.alike);
    }

    /// Whether a directory of the target has another time than that of the source, or lacks bits that it
    /// should have.
    fn differs(&self, there: &Attributes, attributes: &Attributes) -> bool {
        let wanted = self.shared.plan.keep.like(attributes).mode.map(|mode| mode & SPECIAL);
        let has_bits = wanted.is_none_or(|wanted| there.mode.is_none_or(|mode| mode & SPECIAL == wanted));
        !there.looks_like(attributes) || !has_bits
    }

    /// Takes jobs. With -H a further name of a file waits for the first one, and an equal file is linked to
    /// it.
    fn admit(&mut self, jobs: Vec<Job>, alike: Vec<(Job, Option<FileIdentity>)>) {
        if !self.shared.plan.hard_links {
            return self.jobs.extend(jobs);
        }
        let mut parted = Vec::new();
        for (job, there) in alike {
            // A share does not tell the identity of a file.
            if !self.twins.is_joined(&job, there) && !self.shared.target.is_share() {
                let tally = &mut self.report.tally;
                tally.files.skipped -= 1;
                tally.bytes.skipped -= job.attributes.size;
                parted.push(job);
            }
        }
        for job in jobs.into_iter().chain(parted) {
            let begun = self.twins.admit(job);
            self.jobs.extend(begun);
        }
    }

    /// Notes that a file is done, if its directory is staged.
    fn done_for_name(&mut self, job: &Job, is_made: bool) {
        let path = split(&job.path).0;
        let Some(unnamed) = self.unnamed.get_mut(path) else { return };
        if unnamed.is_last(job, is_made)
            && let Some(unnamed) = self.unnamed.remove(path)
        {
            self.begin_naming(unnamed);
        }
    }

    /// Renames a staged directory.
    fn begin_naming(&mut self, unnamed: StagedDirectory) {
        let shared = Arc::clone(&self.shared);
        self.events.spawn(async move {
            let named = shared.unless_over(naming::name(&shared, &unnamed)).await;
            Event::Named(Box::new(unnamed), named)
        });
    }

    /// Continues with the work that waited for the name of a directory.
    fn named(&mut self, unnamed: StagedDirectory, named: FileResult<NamedDirectory>) {
        let NamedDirectory { is_settled, stayed } = match named {
            Ok(named) => named,
            Err(fault) => {
                let why = format!(
                    "its copied part is in {:?}, which could not be renamed: {fault}",
                    split(&unnamed.path).1
                );
                self.fail(&unnamed.directory.path, why);
                self.abandon_unnamed(unnamed);
                if fault.is_loss() && self.shared.is_lost() {
                    self.give_up(&fault);
                }
                return;
            }
        };
        let StagedDirectory { path, directory, jobs, directories, .. } = unnamed;
        let tally = &mut self.report.tally;
        tally.directories.copied += 1;
        // They were counted when they were created.
        tally.files.copied = tally.files.copied.saturating_sub(stayed.len() as u64);
        tally.files.failed += stayed.len() as u64;
        for (entry, fault) in stayed {
            let bytes = &mut self.report.tally.bytes;
            bytes.copied = bytes.copied.saturating_sub(entry.attributes.size);
            bytes.failed += entry.attributes.size;
            let why = format!("it is still in {:?} beside its directory: {fault}", split(&path).1);
            self.fail(&join(&directory.path, &entry.name), why);
        }
        self.directories.extend(directories);
        self.jobs.extend(jobs);
        if directory.attributes.are_known() && !is_settled {
            self.touched.push(directory);
        }
        if self.report.gave_up {
            self.abandon_all();
        }
    }

    fn copied(&mut self, job: &Job, copied: FileResult<Outcome>, took: Duration) {
        self.done_for_name(job, copied.is_ok());
        let released = self.twins.end(job, copied.is_ok());
        self.jobs.extend(released);
        let tally = &mut self.report.tally;
        match copied {
            Ok(Outcome::Same) => tally.files.skipped += 1,
            Ok(Outcome::Left) => {
                tally.files.skipped += 1;
                tally.others += 1;
            }
            Ok(Outcome::Mismatch) => {
                tally.files.mismatch += 1;
                self.note(
                    &job.from,
                    "not copied: the target has something else of that name; remove it there",
                );
            }
            Ok(Outcome::Made(size)) => {
                tally.files.copied += 1;
                tally.bytes.copied += size;
                self.touched.extend(self.watched.remove(split(&job.path).0));
                // An empty file is not read from the source, so its time tells nothing about other files.
                if size > 0 && self.shared.is_small(size) {
                    self.crowd.took(took);
                }
                if self.shared.plan.dry_run {
                    self.note(&job.from, "would be copied");
                }
            }
            Err(fault) => {
                tally.files.failed += 1;
                tally.bytes.failed += job.attributes.size;
                self.report.failing += took;
                self.fail(&job.from, fault.to_string());
                // It may have been one of several connections.
                if fault.is_loss() && self.shared.is_lost() {
                    self.give_up(&fault);
                }
            }
        }
    }

    /// Makes complete directories like those of the source. The deepest go first, because an access list may
    /// keep us from the directories below.
    async fn settle(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        if self.shared.plan.dry_run {
            return;
        }
        if self.report.gave_up {
            return restore(&self.shared, touched).await;
        }
        let depth = |it: &Directory| if it.path.is_empty() { 0 } else { it.path.split('/').count() };
        touched.sort_by_key(depth);
        while let Some(directory) = touched.pop() {
            let is_last = touched.last().is_none_or(|next| depth(next) < depth(&directory));
            let shared = Arc::clone(&self.shared);
            self.events.spawn(async move {
                let path = directory.path.clone();
                Event::Settled(path, settle_patiently(&shared, directory).await)
            });
            let most = if is_last { 0 } else { SETTLING };
            while self.events.len() > most
                && let Some(event) = self.events.join_next().await
            {
                self.take(event);
            }
        }
    }

    /// Begins nothing further, and ends all work, which would fail too.
    fn give_up(&mut self, fault: &Fault) {
        if !self.report.gave_up {
            self.report.gave_up = true;
            self.shared.progress.say(&format!("trunkline: the copy ends here: {fault}"));
        }
        self.shared.end();
        self.abandon_all();
    }

    /// Abandons all waiting work.
    fn abandon_all(&mut self) {
        for (_, unnamed) in std::mem::take(&mut self.unnamed) {
            self.abandon_unnamed(unnamed);
        }
        let (jobs, directories) = (std::mem::take(&mut self.jobs), std::mem::take(&mut self.directories));
        self.abandon(jobs, directories);
        let waiting = self.twins.abandon();
        self.abandon(waiting, []);
    }

    /// Counts a staged directory that does not get its name, and the work that waited for it.
    fn abandon_unnamed(&mut self, unnamed: StagedDirectory) {
        self.report.tally.directories.failed += 1;
        self.abandon(unnamed.jobs, unnamed.directories);
    }

    /// Counts work that will not be begun.
    fn abandon(
        &mut self,
        jobs: impl IntoIterator<Item = Job>,
        directories: impl IntoIterator<Item = Directory>,
    ) {
        let tally = &mut self.report.tally;
        for job in jobs {
            tally.files.failed += 1;
            tally.bytes.failed += job.attributes.size;
        }
        // An existing directory has been counted.
        tally.directories.failed += directories.into_iter().filter(|it| it.there.is_none()).count() as u64;
    }

    fn fail(&mut self, path: &str, why: impl ToString) {
        let why = why.to_string();
        self.shared.progress.say(&format!("trunkline: {}: {why}", self.shown(path)));
        self.report.failures.push((path.to_owned(), why));
    }

    fn note(&mut self, path: &str, what: &str) {
        self.shared.progress.say(&format!("trunkline: {}: {what}", self.shown(path)));
        self.report.notes.push((path.to_owned(), what.to_owned()));
    }

    /// Prints a note about an extra of the target.
    fn note_beyond(&mut self, path: &str, what: &str) {
        let shown = join(&self.shared.plan.target.to_string(), path);
        self.shared.progress.say(&format!("trunkline: {shown}: {what}"));
        self.report.notes.push((path.to_owned(), what.to_owned()));
    }

    /// A path in the form in which the user can find it.
    fn shown(&self, path: &str) -> String {
        if self.is_one_file {
            return self.shared.plan.source.to_string();
        }
        join(&self.shared.plan.source.to_string(), path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::FATAL;
    use crate::tests::{directory_of, job, shared};

    #[tokio::test]
    async fn a_directory_that_was_opened_is_closed_again_where_it_cannot_be_made_like_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let shared = shared(dir.path(), "--owner --retries 0").await;
        let target = dir.path().join("target/gone");
        std::fs::create_dir(&target).unwrap();
        let attributes = shared.source.stat("").await.unwrap().unwrap();
        let mut run = Run::new(Arc::clone(&shared), Report::new(&shared.plan), false);
        let [path, from] = ["gone"; 2].map(str::to_owned);
        run.touched.push(Directory { path, from, restore: Some(0o555), ..directory_of(attributes) });
        run.settle().await;
        assert_eq!(run.report.tally.directories.failed, 1);
        assert_eq!(std::fs::metadata(target).unwrap().permissions().mode() & 0o777, 0o555);
    }

    #[tokio::test]
    async fn a_lost_connection_ends_the_copy_only_when_it_was_the_last_one() {
        let dir = tempfile::tempdir().unwrap();
        let shared = shared(dir.path(), "--retries 0").await;
        std::fs::write(dir.path().join("source/file"), "x").unwrap();
        let job = job(&shared, "file").await;
        let lost = || Fault::from(client::Error::Closed);
        let mut run = Run::new(Arc::clone(&shared), Report::new(&shared.plan), false);
        // No side has lost its last connection here, because this host has none.
        run.copied(&job, Err(lost()), Duration::ZERO);
        assert_eq!((run.report.status(), run.report.tally.files.failed), (8, 1));
        let directory = || Directory { path: "d".to_owned(), there: None, ..directory_of(job.attributes) };
        let survey =
            || Survey { jobs: vec![job.clone()], lost: Some(lost()), done: true, ..Survey::default() };
        run.surveyed(survey(), directory());
        assert_eq!((run.jobs.len(), run.report.gave_up, shared.is_over()), (1, false, false));
        run.give_up(&lost());
        assert_eq!((run.jobs.len(), run.report.tally.files.failed), (0, 2));
        assert!(run.report.status() == 8 | FATAL && shared.is_over());
        // A staged directory fails with its contents.
        let (first, unnamed) = StagedDirectory::new(
            &shared,
            "part".to_owned(),
            directory(),
            vec![job.clone(), job.clone()],
            vec![directory()],
        );
        let before = run.report.tally;
        run.surveyed(Survey { jobs: first, unnamed: Some(unnamed), done: true, ..survey() }, directory());
        let after = run.report.tally;
        assert_eq!(after.files.failed - before.files.failed, 2);
        assert_eq!(after.directories.failed - before.directories.failed, 2);
        // A survey that ends only now begins nothing.
        let beyond = Survey { directories: vec![directory()], ..survey() };
        run.surveyed(beyond, directory());
        assert_eq!((run.jobs.len(), run.directories.len(), run.report.tally.files.failed), (0, 0, 5));
    }
}
