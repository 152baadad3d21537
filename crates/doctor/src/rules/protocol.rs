//! Layer 3: the negotiated protocol options.

use super::{rtt, short, shown};
use crate::finding::{ChangeLocation, Finding, Layer};
use crate::measurements::{NfsProperties, Protocol, Run, RunKind, SmbProperties, TargetMeasurements};

/// Requests that are smaller make a long path slow.
const GOOD_SIZE: u32 = 1 << 20;
/// The sufficient number of credits or slots: that of small requests under way at once.
const ENOUGH: u32 = 32;
/// A larger difference of clocks breaks Kerberos, and the times of files.
const SKEW_MS: i64 = 120_000;
/// The part of a processor that protection may use without a finding.
const CHEAP: f64 = 0.25;

pub(super) fn protocol(measurements: &TargetMeasurements) -> Vec<Finding> {
    let mut found = Vec::new();
    match &measurements.protocol {
        Some(Protocol::Smb(smb)) => {
            found.extend(dialect(smb));
            found.extend(protection(measurements, smb));
            found.extend(size(measurements, smb.max_read.min(smb.max_write)));
            found.extend(credits(measurements, smb));
            found.extend(clock(smb.clock_ahead_ms));
        }
        Some(Protocol::Nfs(nfs)) => {
            found.extend(size(measurements, nfs.max_io));
            found.extend(slots(measurements, nfs));
            found.extend(nfs.clock_ahead_ms.and_then(clock));
            if nfs.minor_version == 1 {
                let says = "the server speaks NFS 4.1 and not 4.2: no copies on the server, no holes";
                found.push(
                    Finding::note(Layer::Protocol, "minor_version", says).by("minor version 2 was refused"),
                );
            }
        }
        _ => {}
    }
    found
}

fn dialect(smb: &SmbProperties) -> Option<Finding> {
    if smb.dialect.starts_with('3') {
        return None;
    }
    let says = format!("the server speaks SMB {} at most: no Multichannel, no encryption", smb.dialect);
    let finding = Finding::held(Layer::Protocol, "dialect", says).by("dialects up to 3.1.1 were offered");
    Some(finding.change(ChangeLocation::Server, "allow SMB 3.1.1 there"))
}

/// The fastest large run, with its time for signing or encryption, in processors.
fn cost<'a>(measurements: &'a TargetMeasurements, smb: &SmbProperties) -> Option<(&'a Run, f64)> {
    let data = measurements.data.as_ref()?;
    let best = [RunKind::Read, RunKind::Write]
        .iter()
        .filter_map(|work| data.best(*work, u32::MAX))
        .max_by(|a, b| a.mib_s.total_cmp(&b.mib_s))?;
    Some((best, best.mib_s * smb.protection_ns_per_mib? / 1e9))
}

/// The finding about the cost of signing or encryption.
fn protection(measurements: &TargetMeasurements, smb: &SmbProperties) -> Option<Finding> {
    if !smb.seals && !smb.signs {
        return None;
    }
    let cost = cost(measurements, smb);
    let share = cost.map_or(0.0, |(_, share)| share);
    // The other work of this host would remain.
    let rest = cost.map_or(1.0, |(run, share)| run.own_processors - share);
    let gain = if rest > 0.1 { (rest + share) / rest } else { 1.0 + share };
    let by =
        cost.map(|(run, share)| format!("{}; that takes {} of one processor here", shown(run), short(share)));
    let with = |finding: Finding| match by.clone() {
        Some(by) => finding.by(by).gain(gain),
        None => finding,
    };
    if smb.seals {
        let cipher = smb.cipher.clone().unwrap_or_default();
        let says = format!(
            "the server requires encryption of everything ({cipher}), which costs both sides processor time"
        );
        let what = "if the path is safe already, do not require it on the server; otherwise use AES-128-GCM, \
                    the cheapest cipher";
        let finding = with(Finding::held(Layer::Protocol, "sealing", says).by("we asked for none"));
        return Some(finding.change(ChangeLocation::Server, what).only_a_note_unless(share > CHEAP / 4.0));
    }
    let algorithm = &smb.signing;
    let says = format!("the server requires signatures, and they use {algorithm}");
    let what = match algorithm.as_str() {
        "AesGmac" => "keep it: AES-GMAC is the cheapest algorithm",
        _ => {
            "let both sides offer AES-128-GMAC (Samba: `server smb3 signing algorithms`; Windows 11 and \
             Server 2022 have it)"
        }
    };
    let finding = with(Finding::held(Layer::Protocol, "signing", says).by("we asked for none"));
    Some(
        finding
            .change(ChangeLocation::Server, what)
            .only_a_note_unless(share > CHEAP && algorithm != "AesGmac"),
    )
}

fn size(measurements: &TargetMeasurements, size: u32) -> Option<Finding> {
    if size >= GOOD_SIZE {
        return None;
    }
    let says = format!("a request moves {} KiB at most, so that large files take many", size >> 10);
    let finding = Finding::held(Layer::Protocol, "small_requests", says)
        .by(format!("the server allows {} KiB; 1024 KiB are usual", size >> 10));
    let what = "raise it there (Samba: `smb2 max read`, `smb2 max write`, dialect 2.1 or later; NFS: rsize \
                and wsize limits)";
    Some(
        finding
            .change(ChangeLocation::Server, what)
            .only_a_note_unless(size <= 128 << 10 || rtt(measurements).is_some_and(|it| it > 2.0)),
    )
}

/// The highest rate of `count` requests of `bytes` each on this path, in MiB/s.
fn most(measurements: &TargetMeasurements, count: u32, bytes: f64) -> Option<f64> {
    let rtt = rtt(measurements)?.max(0.05);
    Some(f64::from(count) * bytes / 1_048_576.0 / (rtt / 1000.0))
}

fn credits(measurements: &TargetMeasurements, smb: &SmbProperties) -> Option<Finding> {
    let had_work = measurements.data.as_ref().is_some_and(|it| !it.runs.is_empty());
    if !had_work || smb.credits >= ENOUGH.max(smb.credits_asked / 8) {
        return None;
    }
    let says =
        format!("the server allows {} KiB under way: it grants {} credits", smb.credits * 64, smb.credits);
    let mut finding = Finding::held(Layer::Protocol, "credits", says)
        .by(format!("{} credits were granted, {} were asked for", smb.credits, smb.credits_asked));
    if let Some(most) = most(measurements, smb.credits, 65536.0) {
        finding =
            finding.by(format!("over this path that is {} MiB/s at most for a connection", short(most)));
    }
    Some(finding.change(ChangeLocation::Server, "raise it there (Samba: `smb2 max credits`)"))
}

fn slots(measurements: &TargetMeasurements, nfs: &NfsProperties) -> Option<Finding> {
    if nfs.slots >= ENOUGH {
        return None;
    }
    let says =
        format!("the server allows {} requests under way, whatever the number of connections", nfs.slots);
    let mut finding = Finding::held(Layer::Protocol, "slots", says)
        .by(format!("{} slots were granted, {} were asked for", nfs.slots, nfs.slots_asked));
    if let Some(most) = most(measurements, nfs.slots, 4096.0) {
        finding = finding
            .by(format!("over this path that is {} reads of 4 KiB a second at most", short(most * 256.0)));
    }
    let what =
        "raise the slot table there (Trunkline: `nfs_slots`; Linux: /sys/module/nfsd; Ganesha: `Nb_Slots`)";
    Some(finding.change(ChangeLocation::Server, what))
}

fn clock(ahead_ms: i64) -> Option<Finding> {
    if ahead_ms.abs() < 3000 {
        return None;
    }
    let seconds = short(ahead_ms.abs() as f64 / 1000.0);
    let direction = if ahead_ms > 0 { "ahead of" } else { "behind" };
    let says = format!(
        "the server's clock is {seconds} s {direction} ours: times of files are wrong, and from 5 minutes on \
         Kerberos refuses"
    );
    let finding =
        Finding::held(Layer::Protocol, "clock", says).by(format!("{ahead_ms} ms between the clocks"));
    let what = "set both by NTP (timedatectl, chronyc tracking)";
    Some(finding.change(ChangeLocation::Server, what).only_a_note_unless(ahead_ms.abs() >= SKEW_MS))
}
