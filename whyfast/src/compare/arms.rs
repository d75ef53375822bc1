//! Arms as they are typed: a recipe, another build of it, the built-in server, a command, or a
//! live server. Pure: nothing is looked up here.

use std::path::PathBuf;

use profiler::Target;

use crate::failure::Failure;

/// One arm of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArmSpec {
    /// The name in every table; unique after [`parse_all`].
    pub(crate) name: String,
    /// As typed.
    pub(crate) spec: String,
    pub(crate) server: ServerSpec,
}

/// What an arm is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerSpec {
    /// A command that whyfast starts, with placeholders.
    Command(String),
    /// A server that runs already.
    Live { url: String, target: LiveTarget },
    /// A recipe, perhaps with a variant and another build.
    Recipe {
        recipe: String,
        variant: Option<String>,
        program: Option<PathBuf>,
    },
    /// The built-in server with its style and injections.
    Testserver { style: String },
}

/// How a live server is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LiveTarget {
    Cgroup(PathBuf),
    Comm(String),
    Pid(u32),
    Port(u16),
    Unit(String),
}

impl LiveTarget {
    /// The target as the options of `whyfast profile`.
    pub(crate) fn profile_options(&self) -> [String; 2] {
        match self {
            Self::Cgroup(path) => ["--cgroup".into(), path.display().to_string()],
            Self::Comm(comm) => ["--comm".into(), comm.clone()],
            Self::Pid(pid) => ["--pid".into(), pid.to_string()],
            Self::Port(port) => ["--port".into(), port.to_string()],
            Self::Unit(unit) => ["--unit".into(), unit.clone()],
        }
    }

    /// The target as the profiler knows it.
    pub(crate) fn to_target(&self) -> Target {
        match self {
            Self::Cgroup(path) => Target::Cgroup(path.clone()),
            Self::Comm(comm) => Target::Comm(comm.clone()),
            Self::Pid(pid) => Target::Pid(*pid),
            Self::Port(port) => Target::Port(*port),
            Self::Unit(unit) => Target::Unit(unit.clone()),
        }
    }
}

/// The arms of a run that names none.
const BUILT_IN: [&str; 2] = ["testserver:sendfile", "testserver:open-read"];

/// Reads all arms, at least so many; the second of two equal names becomes `name#2`.
pub(crate) fn parse_all(specs: &[String], least: usize) -> anyhow::Result<Vec<ArmSpec>> {
    let built_in = BUILT_IN.map(str::to_owned);
    let specs = if specs.is_empty() {
        &built_in[..]
    } else {
        specs
    };
    if specs.len() < least {
        return Err(Failure::usage(format!(
            "one arm ({}) has nothing to be compared with; name a second one, count its calls \
             exactly with --lock-step, or use `whyfast profile` and `whyfast load`",
            specs[0]
        )));
    }
    let mut arms: Vec<ArmSpec> = Vec::new();
    for spec in specs {
        let mut arm = parse(spec)?;
        let plain = arm.name.clone();
        let mut number = 2;
        while arms.iter().any(|other| other.name == arm.name) {
            arm.name = format!("{plain}#{number}");
            number += 1;
        }
        arms.push(arm);
    }
    Ok(arms)
}

/// Reads one arm.
fn parse(spec: &str) -> anyhow::Result<ArmSpec> {
    let arm = |name: &str, server| ArmSpec {
        name: name.to_owned(),
        spec: spec.to_owned(),
        server,
    };
    if let Some((name, rest)) = spec.split_once('=').filter(|(name, _)| is_name(name)) {
        if let Some(command) = rest.strip_prefix("cmd:") {
            return command_arm(spec, command).map(|server| arm(name, server));
        }
        if rest.starts_with("http://") || rest.starts_with("https://") {
            return live(spec, rest).map(|server| arm(name, server));
        }
        return parse(rest).map(|named| arm(name, named.server));
    }
    if spec.contains("://") {
        return Err(Failure::usage(format!(
            "arm {spec:?}: a live server needs a name and a way to find its processes, such as \
             name={spec},port=80"
        )));
    }
    if let Some(style) = spec.strip_prefix("testserver").and_then(|rest| match rest {
        "" => Some("sendfile"),
        _ => rest.strip_prefix(':'),
    }) {
        let name = if style.is_empty() {
            "testserver"
        } else {
            style
        };
        return Ok(arm(
            name,
            ServerSpec::Testserver {
                style: style.to_owned(),
            },
        ));
    }
    recipe(spec).map(|server| arm(spec.split_once('@').map_or(spec, |(name, _)| name), server))
}

/// Names are printed in tables and stand before `=`.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '#'))
}

fn command_arm(spec: &str, command: &str) -> anyhow::Result<ServerSpec> {
    if !command.contains("{port}") {
        return Err(Failure::usage(format!(
            "arm {spec:?}: the command has to say {{port}} where the port to listen on goes"
        )));
    }
    Ok(ServerSpec::Command(command.to_owned()))
}

/// `URL,port=443` and the like: the last comma separates, a URL may have more.
fn live(spec: &str, rest: &str) -> anyhow::Result<ServerSpec> {
    let wrong = |what: &str| {
        Failure::usage(format!(
            "arm {spec:?}: {what}; a live server is name=URL,port=N (or pid=N, comm=NAME, \
             cgroup=PATH, unit=NAME)"
        ))
    };
    let (url, target) = rest
        .rsplit_once(',')
        .and_then(|(url, target)| Some((url, target.split_once('=')?)))
        .ok_or_else(|| wrong("it does not say how to find its processes"))?;
    let target = match target {
        ("port", port) => port.parse().ok().map(LiveTarget::Port),
        ("pid", pid) => pid.parse().ok().map(LiveTarget::Pid),
        ("comm", comm) => Some(LiveTarget::Comm(comm.to_owned())),
        ("cgroup", path) => Some(LiveTarget::Cgroup(PathBuf::from(path))),
        ("unit", unit) => Some(LiveTarget::Unit(unit.to_owned())),
        _ => None,
    };
    let target = target.ok_or_else(|| wrong("its processes cannot be found by that"))?;
    Ok(ServerSpec::Live {
        url: url.to_owned(),
        target,
    })
}

/// `recipe[:variant][@/path]`.
fn recipe(spec: &str) -> anyhow::Result<ServerSpec> {
    let (name, program) = match spec.split_once('@') {
        Some((name, path)) => (name, Some(PathBuf::from(path))),
        None => (spec, None),
    };
    let (recipe, variant) = match name.split_once(':') {
        Some((recipe, variant)) => (recipe, Some(variant.to_owned())),
        None => (name, None),
    };
    if !is_name(recipe) {
        return Err(Failure::usage(format!(
            "arm {spec:?} is no recipe, command (name=cmd:COMMAND) or live server \
             (name=URL,port=N); `whyfast list` shows the recipes"
        )));
    }
    Ok(ServerSpec::Recipe {
        recipe: recipe.to_owned(),
        variant,
        program,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(spec: &str) -> ServerSpec {
        parse(spec).unwrap().server
    }

    /// Every kind of arm reads as what it is.
    #[test]
    fn every_kind_is_told_apart() {
        assert_eq!(
            server("nginx:seed@/opt/nginx"),
            ServerSpec::Recipe {
                recipe: "nginx".into(),
                variant: Some("seed".into()),
                program: Some("/opt/nginx".into())
            }
        );
        assert_eq!(
            server("testserver:sendfile,spin-us=5"),
            ServerSpec::Testserver {
                style: "sendfile,spin-us=5".into()
            }
        );
        assert_eq!(
            server("py=cmd:python3 -m http.server --bind=127.0.0.1 {port}"),
            ServerSpec::Command("python3 -m http.server --bind=127.0.0.1 {port}".into())
        );
        assert_eq!(
            server("live=http://127.0.0.1:8080/a?b=1,2,pid=42"),
            ServerSpec::Live {
                url: "http://127.0.0.1:8080/a?b=1,2".into(),
                target: LiveTarget::Pid(42)
            }
        );
    }

    /// What cannot be an arm is refused with what it could be.
    #[test]
    fn nonsense_is_refused() {
        for spec in [
            "x=cmd:nginx",
            "x=http://h/",
            "x=http://h/,port=70000",
            "http://h/",
            "",
            "a b",
        ] {
            let error = parse(spec).unwrap_err();
            assert_eq!(
                crate::failure::exit_code_of(&error),
                recording::exit_code::USAGE,
                "{spec}"
            );
        }
        assert!(parse_all(&["nginx".into()], 2).is_err());
        assert!(parse_all(&["nginx".into()], 1).is_ok());
    }

    /// No arms means the built-in server twice; equal names are numbered.
    #[test]
    fn names_are_unique() {
        let names = |specs: &[&str]| -> Vec<String> {
            let specs: Vec<String> = specs.iter().map(|&spec| spec.to_owned()).collect();
            parse_all(&specs, 2)
                .unwrap()
                .into_iter()
                .map(|arm| arm.name)
                .collect()
        };
        assert_eq!(names(&[]), ["sendfile", "open-read"]);
        assert_eq!(
            names(&["nginx", "nginx", "nginx@/x"]),
            ["nginx", "nginx#2", "nginx#3"]
        );
        assert_eq!(
            names(&["base=testserver:sendfile,open=1", "head=nginx@/x"]),
            ["base", "head"]
        );
    }
}
