//! The parts shared by the report's page and the page of the running daemon: colours, tables, plots.

pub mod plot;

use tcpilot_show::output::printable;

/// Colours for light and dark screens, tables, plots. It is written without a network.
pub const STYLE: &str = include_str!("style.css");

/// Everything before the body. `title` is escaped here, `styles` are CSS of ours.
pub fn head(title: &str, styles: &[&str]) -> String {
    let styles = styles.iter().map(|style| format!("<style>{style}</style>"));
    let styles: String = styles.collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{}</title>{styles}</head>\n",
        escape(title)
    )
}

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
