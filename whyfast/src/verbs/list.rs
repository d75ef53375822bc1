//! `whyfast list`: recipes, styles of the built-in server, scenarios and findings.

use std::fmt::Write as _;

use recording::exit_code;
use testserver::{Config, Style};

use crate::args::ListArgs;
use crate::compare::cookbook::Cookbook;
use crate::compare::recipe::Recipe;
use crate::compare::scenario;
use crate::output::Output;
use crate::spawn::find_program;

/// Prints the lists.
pub(crate) fn list(args: &ListArgs) -> anyhow::Result<u8> {
    let mut text = recipes(&Cookbook::open(args.recipes.as_deref())?)?;
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

/// Every recipe with its programs, its variants, and what is missing.
fn recipes(cookbook: &Cookbook) -> anyhow::Result<String> {
    let mut text = String::from("recipes (whyfast compare NAME[:VARIANT]...)\n");
    let hidden = cookbook.hidden();
    for name in cookbook.names() {
        let recipe = cookbook.find(name)?;
        let here = match (cookbook.lacks(name)?, &recipe) {
            (Some(lacks), _) => format!("not usable yet: {lacks}"),
            (None, Recipe::Program(program)) => find_program(program.program.as_ref())
                .map_or_else(String::new, |path| path.display().to_string()),
            (None, Recipe::Chain(chain)) => {
                let hops: Vec<String> = chain
                    .hop
                    .iter()
                    .map(|hop| format!("{} ({})", hop.recipe, hop.name))
                    .collect();
                hops.join(" to ")
            }
        };
        let own = match cookbook.own_folder(name) {
            Some(_) if hidden.contains(&name) => " [yours, instead of the built-in one]",
            Some(_) => " [yours]",
            None => "",
        };
        writeln!(text, "  {name:<22} {}{own}", reports::clean(&here))?;
        for (variant, summary) in recipe.variants() {
            let default = if variant == recipe.default_variant() {
                " (the default)"
            } else {
                ""
            };
            let arm = format!("{name}:{variant}");
            writeln!(text, "    {arm:<30} {}{default}", reports::clean(summary))?;
        }
    }
    Ok(text)
}
