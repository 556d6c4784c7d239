//! `tidegate top`: a running gateway live in a terminal.

mod modes;
mod table;

use std::{
    io::{self, IsTerminal as _, Write},
    time::{Duration, Instant},
};

use clap::Args;
use crossterm::{
    cursor,
    event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
    execute, queue,
    style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor},
    terminal::{self, ClearType},
};
use serde_json::Value as Json;

use crate::{client::Asked, failure::Failure, output::say};
use table::{Line, Tone, fitted, lines};

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print it once and end.
    #[arg(long)]
    once: bool,
    /// Seconds between two looks, over which rates are.
    #[arg(long, default_value_t = 2, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
    every: u64,
    /// Only this application.
    #[arg(long, value_name = "NAME")]
    application: Option<String>,
    #[command(flatten)]
    asked: Asked,
}

/// Shows the gateway until q is pressed, or once.
pub(crate) fn run(top: &Top) -> Result<(), Failure> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if top.once || is_dumb || !io::stdout().is_terminal() {
        return plain(top);
    }
    terminal::enable_raw_mode().map_err(Failure::work)?;
    let screen = Screen;
    execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide).map_err(Failure::work)?;
    let shown = live(top);
    drop(screen);
    shown
}

/// Lines one below the other, for files, pipes and terminals that can do no more.
fn plain(top: &Top) -> Result<(), Failure> {
    loop {
        let text: String = top.look()?.iter().map(|line| format!("{}\n", line.text)).collect();
        if !say(text)? || top.once {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(top.every));
    }
}

fn live(top: &Top) -> Result<(), Failure> {
    let mut first = 0_usize;
    let mut lines = top.look()?;
    let mut next = Instant::now() + Duration::from_secs(top.every);
    loop {
        let (width, height) = terminal::size().map_err(Failure::work)?;
        let (fitted, shown) = (fitted(&lines, usize::from(width)), usize::from(height).saturating_sub(1));
        first = first.min(fitted.len().saturating_sub(shown));
        draw(&fitted, first).map_err(Failure::work)?;
        let wait = next.saturating_duration_since(Instant::now());
        if event::poll(wait).map_err(Failure::work)? {
            if let Event::Key(key) = event::read().map_err(Failure::work)?
                && key.kind == KeyEventKind::Press
            {
                let page = shown.max(1);
                match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
                    KeyCode::Down | KeyCode::Char('j') => first = first.saturating_add(1),
                    KeyCode::Up | KeyCode::Char('k') => first = first.saturating_sub(1),
                    KeyCode::PageDown | KeyCode::Char(' ') => first = first.saturating_add(page),
                    KeyCode::PageUp => first = first.saturating_sub(page),
                    KeyCode::Home => first = 0,
                    KeyCode::End => first = usize::MAX,
                    _ => {}
                }
            }
            continue;
        }
        // A gateway that is gone for a moment is asked again; the last look stays.
        match top.look() {
            Ok(new) => lines = new,
            Err(failure) => {
                lines.retain(|line| line.tone != Tone::Lost);
                lines.insert(0, Line { tone: Tone::Lost, text: failure.to_string() });
            }
        }
        next = Instant::now() + Duration::from_secs(top.every);
    }
}

impl Top {
    fn look(&self) -> Result<Vec<Line>, Failure> {
        let overview: Json =
            self.asked.get(&format!("/api/v1/overview?window={}s", self.every), "applications")?;
        let known = overview["applications"].as_array().into_iter().flatten();
        if let Some(wanted) = &self.application
            && !known.clone().any(|application| application["name"] == wanted.as_str())
        {
            let names: Vec<_> = known.filter_map(|application| application["name"].as_str()).collect();
            return Err(Failure::input(format!(
                "--application: there is no {wanted:?}, but {}",
                names.join(", ")
            )));
        }
        Ok(lines(&overview, self.asked.address(), self.application.as_deref()))
    }
}

/// Gives the terminal back as it was.
struct Screen;

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), ResetColor, cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

fn draw(lines: &[Line], first: usize) -> io::Result<()> {
    let (width, height) = terminal::size()?;
    let (width, height) = (usize::from(width), usize::from(height));
    let mut out = io::stdout().lock();
    queue!(out, cursor::MoveTo(0, 0))?;
    let shown = height.saturating_sub(1);
    for line in lines.iter().skip(first).take(shown) {
        match line.tone {
            Tone::Title => queue!(out, SetAttribute(Attribute::Bold))?,
            Tone::Head => queue!(out, SetForegroundColor(Color::DarkGrey))?,
            Tone::Alarm | Tone::Lost => queue!(out, SetForegroundColor(Color::Red))?,
            Tone::Row => {}
        }
        let text: String = line.text.chars().take(width).collect();
        queue!(
            out,
            Print(text),
            SetAttribute(Attribute::Reset),
            ResetColor,
            terminal::Clear(ClearType::UntilNewLine),
            Print("\r\n")
        )?;
    }
    let more = lines.len().saturating_sub(first + shown);
    let more = if more > 0 { format!("{more} lines more below · ") } else { String::new() };
    let help: String = format!("{more}arrows scroll · q ends").chars().take(width).collect();
    queue!(
        out,
        terminal::Clear(ClearType::FromCursorDown),
        cursor::MoveTo(0, u16::try_from(shown).unwrap_or(u16::MAX)),
        SetForegroundColor(Color::DarkGrey),
        Print(help),
        ResetColor
    )?;
    out.flush()
}
