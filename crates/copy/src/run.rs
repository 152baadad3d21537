//! A copy from its beginning to its end: one loop that hands out directories to look at and files to copy, and counts
//! what comes of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Url;
use client::remote::{Attributes, Kind, Node, SPECIAL};
use tokio::task::{JoinHandle, JoinSet};

use crate::beside::carry::carry_directory;
use crate::beside::kept;
use crate::crowd::Crowd;
use crate::error::{Doing, Done, Fault};
use crate::file;
use crate::found::{Known, Survey};
use crate::job::{Directory, Job};
use crate::link::Outcome;
use crate::name::{join, split};
use crate::naming::{self, Named};
use crate::patience::patiently;
use crate::progress::Progress;
use crate::report::Report;
use crate::shared::{MANY, Shared};
use crate::survey;
use crate::tree::Tree;
use crate::tree::facts::{Listing, Spot};
use crate::tree::like::Like;
use crate::twins::Twins;
use crate::unnamed::Unnamed;
use crate::{Error, Plan, glance, name, widen};

/// Threads that work on files of this host.
const THREADS: usize = 64;
/// Directories that are looked at at once.
const SURVEYS: usize = 16;
/// No further directory is looked at while so many files wait.
const WAITING: usize = 10_000;
/// Files under way while that begins.
const MEANWHILE: usize = 128;
/// Directories whose times are set at once.
const SETTLING: usize = 32;

/// Runs `plan` to its end. What goes wrong with single files is in the report, and a line on standard error.
///
/// # Errors
/// When nothing could be begun: a server that cannot be reached, a login that is refused, a source that is not there.
pub fn run(plan: Plan) -> Result<Report, Error> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(THREADS).build();
    let runtime = runtime.map_err(|why| Error::new("starting a runtime", why))?;
    runtime.block_on(go(plan))
}

/// What is done at once, and what came of it.
enum Event {
    Surveyed(Box<Survey>, Directory),
    Copied(Job, Done<Outcome>, Duration),
    Named(Box<Unnamed>, Done<Named>),
    Settled(String, Done<()>),
}

struct Run {
    shared: Arc<Shared>,
    report: Report,
    events: JoinSet<Event>,
    directories: VecDeque<Directory>,
    jobs: VecDeque<Job>,
    /// What is known of the directory in which the copy begins.
    known: Known,
    /// Directories that have no names yet, by where they are.
    unnamed: HashMap<String, Unnamed>,
    surveys: usize,
    copies: usize,
    /// How many files may be under way.
    crowd: Crowd,
    /// Small files that were found.
    small: usize,
    /// What opens further sessions since there are many of them.
    splitting: Option<JoinHandle<()>>,
    /// Since when some file has been under way.
    copying_since: Option<Instant>,
    /// Whether the source is a file itself.
    is_one_file: bool,
    /// Directories that are to have the times of the source when all is in them.
    touched: Vec<Directory>,
    /// Directories that are to have them as soon as something has been put into them, by where they are.
    watched: HashMap<String, Directory>,
    /// Files of several names, where these are kept.
    twins: Twins,
}

async fn go(plan: Plan) -> Result<Report, Error> {
    let begun = Instant::now();
    let ((mut source, found), mut target) = tokio::try_join!(
        Found::open(&plan),
        Tree::open_for(&plan.target, &plan.target_access, glance::begin(&plan))
    )?;
    let first = begin(&plan, found, &mut source, &mut target).await?;
    let report = Report::new(&plan);
    let shared = Arc::new(Shared::new(plan, source, target, Progress::new()));
    let mut run = Run::new(Arc::clone(&shared), report, matches!(first, First::File { .. }));
    let first = first.arrive(&shared).await?;
    let widening = match shared.plan.channels {
        Some(channels) => {
            widen::open(&shared, channels).await;
            None
        }
        None => Some(tokio::spawn(widen::run(Arc::clone(&shared)))),
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

/// Waits until `task` has ended; for ever when there is none.
async fn ended(task: &mut Option<JoinHandle<()>>) {
    match task {
        Some(task) => {
            // However it ended.
            let _ = task.await;
        }
        None => std::future::pending().await,
    }
}

/// What there is at the source.
struct Found {
    facts: Attributes,
    /// What is in it, if it is a directory; what keeps us from that is said when it is looked at again.
    listed: Option<Listing>,
}

impl Found {
    /// Goes to the source and looks. That takes no time where the way to the target takes longer.
    async fn open(plan: &Plan) -> Result<(Tree, Found), Error> {
        let source = Tree::open(&plan.source, &plan.source_access).await?;
        let looking = || format!("looking at {}", plan.source);
        let missing = || Error::new(looking(), "there is no such file or directory; check the path");
        let facts = source.stat("").await.doing(looking)?.ok_or_else(missing)?;
        let listed = match facts.kind {
            Kind::Directory => source.list("").await.ok(),
            _ => None,
        };
        Ok((source, Found { facts, listed }))
    }
}

/// What the copy begins with.
enum First {
    Directory(Directory, Known),
    /// A file, the name it gets, and what the target has of that name.
    File {
        job: Job,
        there: Option<Attributes>,
    },
}

/// Finds what there is on both sides.
async fn begin(plan: &Plan, found: Found, source: &mut Tree, target: &mut Tree) -> Result<First, Error> {
    let looking = |place: &Url| format!("looking at {place}");
    let Found { facts, listed } = found;
    let there = target.stat("").await.doing(|| looking(&plan.target))?;
    match facts.kind {
        Kind::Directory => {
            if there.is_some_and(|there| there.kind != Kind::Directory) {
                return Err(Error::new(looking(&plan.target), "it is no directory, but the source is one"));
            }
            let (path, from) = Default::default();
            let directory = Directory { path, from, trail: None, facts, there, restore: None };
            Ok(First::Directory(directory, Known { listed, made: None }))
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
                    job: Job { from: name.clone(), path: name, facts, spot: Spot::of(there), twin: None },
                    there,
                });
            }
            let path = target.step_up().doing(|| looking(&plan.target))?;
            if !plan.dry_run {
                target.make_root().await.doing(|| format!("making the directory of {}", plan.target))?;
            }
            let job = Job { from: name, path, facts, spot: Spot::of(there), twin: None };
            Ok(First::File { job, there })
        }
        Kind::Link | Kind::Other => {
            Err(Error::new(looking(&plan.source), "it is neither a file nor a directory"))
        }
    }
}

impl First {
    /// Makes the directory in which the copy begins its beginning, unless it is there.
    async fn arrive(mut self, shared: &Shared) -> Result<First, Error> {
        if let First::Directory(directory, Known { listed: Some(listed), made }) = &mut self
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
async fn settle_directory(shared: &Shared, directory: &Directory) -> Done<()> {
    let Directory { path, from, facts, restore, .. } = directory;
    let like = carry_directory(shared, from, path, facts).await?;
    let like = Like { mode: like.mode.or(*restore), ..like };
    shared.target.settle_directory(path, &like).await
}

/// The same, as often as that may help. A directory that does not become like that of the source gets back what it had.
async fn settle_patiently(shared: &Shared, directory: Directory) -> Done<()> {
    if let Err(fault) = patiently(shared, || settle_directory(shared, &directory)).await {
        restore(shared, vec![directory]).await;
        return Err(fault);
    }
    patiently(shared, || kept::check(shared, &directory.path, &directory.facts)).await
}

/// Gives directories the permission bits back that they had before a copy that ends early, where that can still be done.
async fn restore(shared: &Shared, touched: Vec<Directory>) {
    for Directory { path, restore, .. } in touched {
        if restore.is_some() && !shared.target.is_lost() {
            // What counts is why the copy has ended.
            let _ = shared.target.settle_directory(&path, &Like { mode: restore, ..Like::default() }).await;
        }
    }
}

impl Run {
    fn new(shared: Arc<Shared>, report: Report, is_one_file: bool) -> Run {
        let crowd = Crowd::new(shared.plan.threads);
        Run {
            shared,
            report,
            events: JoinSet::new(),
            directories: VecDeque::new(),
            jobs: VecDeque::new(),
            known: Known::default(),
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
            twins: Twins::default(),
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
                tally.bytes.total += job.facts.size;
                let refusal = match self.shared.target.is_share() {
                    true => name::check_for_smb(&job.path).err(),
                    false => None,
                };
                if let Some(why) = refusal {
                    self.fail(&job.path, why);
                    self.report.tally.files.failed += 1;
                } else if there.is_some_and(|there| there.kind != Kind::File) {
                    tally.files.mismatch += 1;
                    tally.bytes.mismatch += job.facts.size;
                    self.note(&job.path, "not copied: the target has something else of that name");
                } else if there.is_some_and(|there| there.looks_like(&job.facts)) {
                    tally.files.skipped += 1;
                    tally.bytes.skipped += job.facts.size;
                } else {
                    self.shared.progress.expect(job.facts.size);
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
                        true => Ok(Outcome::Made(job.facts.size)),
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
                // The first one is that in which the copy begins.
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

    /// Files that may be under way. While further sessions are opened few are: what is under way stays where it is.
    fn most(&self) -> usize {
        let most = self.crowd.size();
        if self.splitting.is_some() { most.min(MEANWHILE) } else { most }
    }

    /// Counts what came of something.
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
        let is_small = |job: &&Job| self.shared.is_small(job.facts.size);
        self.small += survey.jobs.iter().filter(is_small).count();
        let plan = &self.shared.plan;
        if self.small >= MANY && plan.may_split() && self.shared.set_split() {
            let shared = Arc::clone(&self.shared);
            self.splitting = Some(tokio::spawn(async move {
                tokio::join!(shared.source.split(), shared.target.split());
            }));
        }
        let later = survey.unnamed.iter().flat_map(|unnamed| &unnamed.jobs);
        self.shared.progress.expect(survey.jobs.iter().chain(later).map(|job| job.facts.size).sum());
        if let Some(unnamed) = survey.unnamed {
            match survey.jobs.is_empty() {
                true => self.begin_naming(unnamed),
                false => drop(self.unnamed.insert(unnamed.path.clone(), unnamed)),
            }
            self.jobs.extend(survey.jobs);
            return;
        }
        let differs = directory.there.is_none_or(|there| self.differs(&there, &directory.facts));
        let is_opened = directory.restore.is_some();
        if is_opened || survey.done && (survey.changes || differs) && directory.facts.are_known() {
            self.touched.push(directory);
        } else if survey.may_change && directory.facts.are_known() {
            self.watched.insert(directory.path.clone(), directory);
        }
        self.directories.extend(survey.directories);
        self.admit(survey.jobs, survey.alike);
    }

    /// Whether a directory of the target has another time than that of the source, or lacks bits that it should have.
    fn differs(&self, there: &Attributes, facts: &Attributes) -> bool {
        let wanted = self.shared.plan.keep.like(facts).mode.map(|mode| mode & SPECIAL);
        let has_bits = wanted.is_none_or(|wanted| there.mode.is_none_or(|mode| mode & SPECIAL == wanted));
        !there.looks_like(facts) || !has_bits
    }

    /// Takes jobs. With -H a further name of a file waits for the first one, and one that looks like it is joined with it.
    fn admit(&mut self, jobs: Vec<Job>, alike: Vec<(Job, Option<Node>)>) {
        if !self.shared.plan.hard_links {
            return self.jobs.extend(jobs);
        }
        let mut parted = Vec::new();
        for (job, there) in alike {
            // A share does not tell which file is which.
            if !self.twins.is_joined(&job, there) && !self.shared.target.is_share() {
                let tally = &mut self.report.tally;
                tally.files.skipped -= 1;
                tally.bytes.skipped -= job.facts.size;
                parted.push(job);
            }
        }
        for job in jobs.into_iter().chain(parted) {
            let begun = self.twins.admit(job);
            self.jobs.extend(begun);
        }
    }

    /// Takes notice of a file that is done, if its directory has waited for it.
    fn done_for_name(&mut self, job: &Job, is_made: bool) {
        let path = split(&job.path).0;
        let Some(unnamed) = self.unnamed.get_mut(path) else { return };
        if unnamed.is_last(job, is_made)
            && let Some(unnamed) = self.unnamed.remove(path)
        {
            self.begin_naming(unnamed);
        }
    }

    /// Gives a new directory its name.
    fn begin_naming(&mut self, unnamed: Unnamed) {
        let shared = Arc::clone(&self.shared);
        self.events.spawn(async move {
            let named = shared.unless_over(naming::name(&shared, &unnamed)).await;
            Event::Named(Box::new(unnamed), named)
        });
    }

    /// Goes on with what was to wait for the name of a directory.
    fn named(&mut self, unnamed: Unnamed, named: Done<Named>) {
        let Named { is_settled, stayed } = match named {
            Ok(named) => named,
            Err(fault) => {
                let why = format!(
                    "what was copied of it is in {:?} beside it, which was not given its name: {fault}",
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
        let Unnamed { path, directory, jobs, directories, .. } = unnamed;
        let tally = &mut self.report.tally;
        tally.directories.copied += 1;
        // They have been counted when they were made.
        tally.files.copied = tally.files.copied.saturating_sub(stayed.len() as u64);
        tally.files.failed += stayed.len() as u64;
        for (entry, fault) in stayed {
            let bytes = &mut self.report.tally.bytes;
            bytes.copied = bytes.copied.saturating_sub(entry.facts.size);
            bytes.failed += entry.facts.size;
            let why = format!("it is still in {:?} beside its directory: {fault}", split(&path).1);
            self.fail(&join(&directory.path, &entry.name), why);
        }
        self.directories.extend(directories);
        self.jobs.extend(jobs);
        if directory.facts.are_known() && !is_settled {
            self.touched.push(directory);
        }
        if self.report.gave_up {
            self.abandon_all();
        }
    }

    fn copied(&mut self, job: &Job, copied: Done<Outcome>, took: Duration) {
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
                // An empty one is not asked for at the source: how quick that is says nothing of the others.
                if size > 0 && self.shared.is_small(size) {
                    self.crowd.took(took);
                }
                if self.shared.plan.dry_run {
                    self.note(&job.from, "would be copied");
                }
            }
            Err(fault) => {
                tally.files.failed += 1;
                tally.bytes.failed += job.facts.size;
                self.report.failing += took;
                self.fail(&job.from, fault.to_string());
                // Of several connections one may have been lost alone.
                if fault.is_loss() && self.shared.is_lost() {
                    self.give_up(&fault);
                }
            }
        }
    }

    /// Makes directories like those of the source, now that nothing more is put into them: the deepest first, since a list
    /// may keep us from what is below.
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

    /// Begins nothing further, and ends what is under way: it would end as badly.
    fn give_up(&mut self, fault: &Fault) {
        if !self.report.gave_up {
            self.report.gave_up = true;
            self.shared.progress.say(&format!("trunkline: the copy ends here: {fault}"));
        }
        self.shared.end();
        self.abandon_all();
    }

    /// Begins nothing of what waits.
    fn abandon_all(&mut self) {
        for (_, unnamed) in std::mem::take(&mut self.unnamed) {
            self.abandon_unnamed(unnamed);
        }
        let (jobs, directories) = (std::mem::take(&mut self.jobs), std::mem::take(&mut self.directories));
        self.abandon(jobs, directories);
        let waiting = self.twins.abandon();
        self.abandon(waiting, []);
    }

    /// Counts a directory that does not get its name, and what has waited for that.
    fn abandon_unnamed(&mut self, unnamed: Unnamed) {
        self.report.tally.directories.failed += 1;
        self.abandon(unnamed.jobs, unnamed.directories);
    }

    /// Counts what is not going to be begun any more.
    fn abandon(
        &mut self,
        jobs: impl IntoIterator<Item = Job>,
        directories: impl IntoIterator<Item = Directory>,
    ) {
        let tally = &mut self.report.tally;
        for job in jobs {
            tally.files.failed += 1;
            tally.bytes.failed += job.facts.size;
        }
        // One that is there has been counted.
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

    /// A note about what only the target has.
    fn note_beyond(&mut self, path: &str, what: &str) {
        let shown = join(&self.shared.plan.target.to_string(), path);
        self.shared.progress.say(&format!("trunkline: {shown}: {what}"));
        self.report.notes.push((path.to_owned(), what.to_owned()));
    }

    /// A path as the user can find it.
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
        let facts = shared.source.stat("").await.unwrap().unwrap();
        let mut run = Run::new(Arc::clone(&shared), Report::new(&shared.plan), false);
        let [path, from] = ["gone"; 2].map(str::to_owned);
        run.touched.push(Directory { path, from, restore: Some(0o555), ..directory_of(facts) });
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
        // No side has lost its last connection here: this host has none.
        run.copied(&job, Err(lost()), Duration::ZERO);
        assert_eq!((run.report.status(), run.report.tally.files.failed), (8, 1));
        let directory = || Directory { path: "d".to_owned(), there: None, ..directory_of(job.facts) };
        let survey =
            || Survey { jobs: vec![job.clone()], lost: Some(lost()), done: true, ..Survey::default() };
        run.surveyed(survey(), directory());
        assert_eq!((run.jobs.len(), run.report.gave_up, shared.is_over()), (1, false, false));
        run.give_up(&lost());
        assert_eq!((run.jobs.len(), run.report.tally.files.failed), (0, 2));
        assert!(run.report.status() == 8 | FATAL && shared.is_over());
        // One that waits for its name fails with what it has.
        let (first, unnamed) = Unnamed::new(
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
        // One that has ended only now begins nothing.
        let beyond = Survey { directories: vec![directory()], ..survey() };
        run.surveyed(beyond, directory());
        assert_eq!((run.jobs.len(), run.directories.len(), run.report.tally.files.failed), (0, 0, 5));
    }
}
