//! `whyfast list`: recipes, styles of the built-in server, scenarios and findings.

use std::fmt::Write as _;

use recording::exit_code;
use testserver::{Config, Style};

use crate::compare::{recipe, scenario};
use crate::output::Output;
use crate::spawn::find_program;

/// Prints the lists.
pub(crate) fn list() -> anyhow::Result<u8> {
    let mut text = String::from("recipes (whyfast compare NAME[:VARIANT]...)\n");
    for name in recipe::names() {
        let recipe = recipe::find(name)?;
        let here = match find_program(recipe.program.as_ref()) {
            Some(path) => path.display().to_string(),
            None => format!("not installed; package {}", recipe.package),
        };
        writeln!(text, "  {name:<22} {here}")?;
        for (variant, settings) in &recipe.variants {
            let default = if *variant == recipe.default_variant {
                " (the default)"
            } else {
                ""
            };
            writeln!(
                text,
                "    {name}:{variant:<19} {}{default}",
                settings.summary
            )?;
        }
    }
    text.push_str("\nbuilt-in server (testserver:STYLE[,KNOB=VALUE]...)\n");
    for style in Style::ALL {
        writeln!(
            text,
            "  testserver:{:<17} {}",
            style.name(),
            style.summary()
        )?;
        let calls: Vec<String> = Config::new(style)
            .calls_per_request()
            .iter()
            .map(|call| format!("{} {}", call.per_request, call.name))
            .collect();
        writeln!(text, "  {:<28} per request: {}", "", calls.join(", "))?;
    }
    for (name, values, summary) in testserver::knobs() {
        writeln!(text, "  {name:<12} {summary} ({values})")?;
    }
    text.push_str("\nscenarios (--scenario NAME)\n");
    for name in scenario::names() {
        let (_, scenario) = scenario::read(name)?;
        writeln!(text, "  {name:<24} {}", scenario.summary)?;
        let optional = scenario.optional_arms.iter();
        let optional = optional.map(|arm| format!("[{arm}]"));
        let arms: Vec<String> = scenario.arms.iter().cloned().chain(optional).collect();
        writeln!(text, "  {:<24} arms: {}", "", arms.join(" "))?;
    }
    text.push_str("\nfindings (rules over what was counted and timed)\n");
    for (id, about) in reports::findings::rules() {
        writeln!(text, "  {id:<27} {about}")?;
    }
    Output::Stdout.write(&text)?;
    Ok(exit_code::DONE)
}
