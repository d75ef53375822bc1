//! Who load and servers run as: never root only because whyfast does.

use std::fs;

use anyhow::Context as _;

use crate::failure::Failure;

/// A user to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Every group, the first one included.
    pub(crate) groups: Vec<u32>,
    pub(crate) name: String,
    pub(crate) home: String,
}

/// The user that unprivileged children take, in order: `--user`, the user behind sudo, `nobody`;
/// `None` where whyfast is not root and they simply stay what it is.
pub(crate) fn unprivileged(user: Option<&str>) -> anyhow::Result<Option<Identity>> {
    if !rustix::process::geteuid().is_root() {
        return match user {
            None => Ok(None),
            Some(name) => Err(Failure::usage(format!(
                "--user {name} needs root; run with sudo, or leave it out to run as yourself"
            ))),
        };
    }
    let passwd = fs::read_to_string("/etc/passwd").context("failed to read /etc/passwd")?;
    if let Some(name) = user {
        return find(&passwd, |entry| {
            entry.name == name || entry.uid.to_string() == name
        })
        .map(Some)
        .ok_or_else(|| {
            Failure::usage(format!(
                "--user {name}: no such user in /etc/passwd; name another"
            ))
        });
    }
    if let Some(identity) = from_environment(&passwd) {
        return Ok(Some(identity));
    }
    let nobody = find(&passwd, |entry| entry.name == "nobody");
    Ok(Some(nobody.unwrap_or_else(|| Identity {
        uid: 65534,
        gid: 65534,
        groups: vec![65534],
        name: "nobody".into(),
        home: "/".into(),
    })))
}

/// The user behind sudo, for a command that the user could have run without it; `None` where there
/// is no such user.
pub(crate) fn caller() -> Option<Identity> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    from_environment(&passwd)
}

fn from_environment(passwd: &str) -> Option<Identity> {
    let variable = |name| std::env::var(name).ok();
    let (uid, gid) = (variable("SUDO_UID"), variable("SUDO_GID"));
    let mut identity = behind_sudo(passwd, uid.as_deref(), gid.as_deref())?;
    let group = fs::read_to_string("/etc/group").unwrap_or_default();
    identity.groups.extend(groups_of(&group, &identity.name));
    Some(identity)
}

/// The groups of group(5) that name the user as a member: `name:password:gid:member,member`.
fn groups_of(group: &str, user: &str) -> Vec<u32> {
    let member_of = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let gid = fields.next()?.parse().ok()?;
        fields
            .next()?
            .split(',')
            .any(|member| member == user)
            .then_some(gid)
    };
    group.lines().filter_map(member_of).collect()
}

/// The user who called sudo; root behind sudo is no one to drop to.
fn behind_sudo(passwd: &str, uid: Option<&str>, gid: Option<&str>) -> Option<Identity> {
    let uid: u32 = uid?.parse().ok().filter(|&uid| uid != 0)?;
    let known = find(passwd, |entry| entry.uid == uid);
    let gid = gid
        .and_then(|gid| gid.parse().ok())
        .or(known.as_ref().map(|entry| entry.gid))?;
    let (name, home) = known.map_or_else(
        || (uid.to_string(), "/".to_owned()),
        |entry| (entry.name, entry.home),
    );
    Some(Identity {
        uid,
        gid,
        groups: vec![gid],
        name,
        home,
    })
}

fn find(passwd: &str, matches: impl Fn(&Identity) -> bool) -> Option<Identity> {
    passwd.lines().filter_map(parse_entry).find(matches)
}

/// One line of passwd(5): `name:password:uid:gid:comment:home:shell`.
fn parse_entry(line: &str) -> Option<Identity> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty())?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1).unwrap_or("/").to_owned();
    Some(Identity {
        uid,
        gid,
        groups: vec![gid],
        name,
        home,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
                          broken line\n\
                          nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n\
                          ann:x:1000:1001:Ann,,,:/home/ann:/bin/bash\n";

    /// The user behind sudo is taken with the group of passwd where sudo names none.
    #[test]
    fn sudo_names_the_user() {
        let ann = Identity {
            uid: 1000,
            gid: 1001,
            groups: vec![1001],
            name: "ann".into(),
            home: "/home/ann".into(),
        };
        assert_eq!(behind_sudo(PASSWD, Some("1000"), None), Some(ann.clone()));
        assert_eq!(
            behind_sudo(PASSWD, Some("1000"), Some("7")),
            Some(Identity {
                gid: 7,
                groups: vec![7],
                ..ann
            })
        );
    }

    /// A user's groups are those that name it as a member.
    #[test]
    fn groups_have_members() {
        let group = "root:x:0:\nsudo:x:27:bob,ann\nbroken\ndocker:x:999:anna\nwww:x:33:ann";
        assert_eq!(groups_of(group, "ann"), [27, 33]);
    }

    /// Root behind sudo, or nonsense, is not a user to drop to.
    #[test]
    fn root_behind_sudo_is_nobody() {
        assert_eq!(behind_sudo(PASSWD, Some("0"), Some("0")), None);
        assert_eq!(behind_sudo(PASSWD, Some("x"), None), None);
        assert_eq!(behind_sudo(PASSWD, None, Some("7")), None);
    }
}
