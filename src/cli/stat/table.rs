//! Tables as text: columns as wide as their widest cell, or CSV; and numbers, times and sizes as they are shown in them.

use super::super::agent::Entity;
use serde_json::Value;

/// Spaces between two columns.
const SPACING: usize = 2;
const INDENT: &str = "  ";

/// A table of text cells. Rows may be shorter than the headings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub title: String,
    pub headings: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(title: impl Into<String>, headings: &[&'static str]) -> Table {
        Table { title: title.into(), headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Sorts by the text of a column, where there is such a column; equal rows stay in their order.
    pub fn sort_by(mut self, heading: &str) -> Table {
        if let Some(column) = self.headings.iter().position(|known| *known == heading) {
            self.rows.sort_by(|a, b| a[column].cmp(&b[column]));
        }
        self
    }

    /// Just the title, where there are no rows.
    pub fn render(&self, csv: bool) -> String {
        match csv {
            _ if self.rows.is_empty() => format!("{}\n", self.title),
            true => self.as_csv(),
            false => self.as_text(),
        }
    }

    fn as_text(&self) -> String {
        let width_of = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([self.headings[column].len()]).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(|column| width_of(column) + SPACING).collect();
        let mut text = format!("{}\n", self.title);
        line(&mut text, &widths, |column| self.headings[column]);
        text.push_str(INDENT);
        text.extend(std::iter::repeat_n('=', widths.iter().sum()));
        text.push('\n');
        for row in &self.rows {
            line(&mut text, &widths, |column| row.get(column).map_or("", String::as_str));
        }
        text
    }

    fn as_csv(&self) -> String {
        let quoted = |cell: &str| match cell {
            "" => String::new(),
            cell => format!("\"{}\"", cell.replace('"', "\"\"")),
        };
        let mut text = format!("{}\n", self.title);
        let headings: Vec<String> = self.headings.iter().map(|heading| quoted(heading)).collect();
        text.push_str(&headings.join(","));
        text.push('\n');
        for row in &self.rows {
            let mut cells: Vec<String> = row.iter().map(|cell| quoted(cell)).collect();
            cells.resize(self.headings.len().max(cells.len()), String::new());
            text.push_str(&cells.join(","));
            text.push('\n');
        }
        text
    }
}

/// The last cell isn't padded.
fn line<'a>(text: &mut String, widths: &[usize], cell: impl Fn(usize) -> &'a str) {
    text.push_str(INDENT);
    for (column, width) in widths.iter().enumerate() {
        let cell = cell(column);
        text.push_str(cell);
        if column + 1 < widths.len() {
            text.extend(std::iter::repeat_n(' ', width - cell.chars().count()));
        }
    }
    text.push('\n');
}

/// An attribute; null where the entity hasn't it.
pub fn get<'a>(entity: &'a Entity, name: &str) -> &'a Value {
    entity.get(name).unwrap_or(&Value::Null)
}

/// A whole number as it is; a null is empty.
pub fn number(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => plain(value),
    }
}

/// A number without decimals; other values as they are, a null as `None`.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => number.to_string(),
            (_, Some(number), _) => number.to_string(),
            (_, _, number) => format!("{:.0}", number.unwrap_or_default().trunc()),
        },
        Value::Bool(value) => u8::from(*value).to_string(),
        value => text(value),
    }
}

/// Any value in a cell; a null is empty.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(list) => format!("[{}]", list.iter().map(quoted).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| format!("'{key}': {}", quoted(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Number(number) => number.to_string(),
    }
}

/// As an element of a list.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{text}'"),
        Value::Null => "None".to_owned(),
        value => text(value),
    }
}

/// Thousands apart: `1,234,567`.
pub fn commas(value: &Value) -> String {
    let text = number(value);
    let mut out = String::with_capacity(text.len() * 4 / 3 + 1);
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.chars().count() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Seconds as days, hours, minutes and seconds: `000:01:02:03`.
pub fn days(seconds: &Value) -> String {
    let seconds = seconds.as_u64().unwrap_or_default();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    format!("{:03}:{:02}:{:02}:{:02}", seconds / 86_400, hours % 24, minutes % 60, seconds % 60)
}

/// Seconds as a time of day: `00:01:02`, beginning again after a day.
pub fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// Bytes with a unit of 1024: `317 MiB`, three digits at least.
pub fn bytes(value: &Value) -> String {
    let bytes = value.as_f64().unwrap_or_default();
    if bytes < 1024.0 {
        return format!("{bytes:.0}");
    }
    let mut scaled = bytes / 1024.0;
    let mut units = ["KiB", "MiB", "GiB", "TiB", "PiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = larger;
    }
    match scaled {
        scaled if scaled < 10.0 => format!("{scaled:.2} {unit}"),
        scaled if scaled < 100.0 => format!("{scaled:.1} {unit}"),
        scaled => format!("{scaled:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table() -> Table {
        let mut table = Table::new("Things", &["name", "n"]);
        table.rows = vec![vec!["büro".into(), "10".into()], vec!["a \"b\"".into(), String::new()], vec!["c".into()]];
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let expected = "Things\n  name   n\n  ===========\n  büro   10\n  a \"b\"  \n  c      \n";
        assert_eq!(table().render(false), expected);
        assert_eq!(Table::new("None", &["x"]).render(false), "None\n");
    }

    #[test]
    fn csv_is_quoted() {
        assert_eq!(table().render(true), "Things\n\"name\",\"n\"\n\"büro\",\"10\"\n\"a \"\"b\"\"\",\n\"c\",\n");
    }

    #[test]
    fn rows_are_sorted_by_a_column() {
        let names: Vec<String> = table().sort_by("name").rows.into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(names, ["a \"b\"", "büro", "c"]);
    }

    #[test]
    fn numbers_are_shown_as_people_know_them() {
        for (value, expected) in
            [(json!(0), "0"), (json!(999), "999"), (json!(1000), "1,000"), (json!(1234567), "1,234,567")]
        {
            assert_eq!(commas(&value), expected);
        }
        for (value, expected) in
            [(json!(0), "000:00:00:00"), (json!(93784), "001:02:03:04"), (json!(null), "000:00:00:00")]
        {
            assert_eq!(days(&value), expected);
        }
        for (value, expected) in [
            (json!(1023), "1023"),
            (json!(1024), "1.00 KiB"),
            (json!(332398592), "317 MiB"),
            (json!(15 * 1024 * 1024), "15.0 MiB"),
            (json!(1u64 << 60), "1024 PiB"),
        ] {
            assert_eq!(bytes(&value), expected);
        }
        assert_eq!(
            (plain(&json!(null)), plain(&json!(true)), plain(&json!(2.9))),
            ("None".into(), "1".into(), "2".into())
        );
        assert_eq!((number(&json!(null)), number(&json!(-3))), (String::new(), "-3".into()));
        assert_eq!(text(&json!(["a", 1, true, null])), "['a', 1, True, None]");
        assert_eq!(text(&json!({"a": [1]})), "{'a': [1]}");
        assert_eq!((clock(61), clock(90_000)), ("00:01:01".into(), "01:00:00".into()));
    }
}
