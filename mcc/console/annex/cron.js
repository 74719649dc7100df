// A timetable in words: five fields of cron, or an interval.
const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(" ");

const MONTHS =
  "December January February March April May June July August September October November December".split(" ");

const listed = (words) => words.join(", ").replace(/, ([^,]*)$/, " and $1");

// Null for any value. `names`: from zero on; what has none stays as it is written.
function field(text, lead, unit, names) {
  const every = /^\*\/(\d+)$/.exec(text);
  if (every) return `every ${every[1]} ${unit}s`;
  if (text === "*") return null;
  const named = (word) => {
    const found = names?.findIndex((name) => name.slice(0, 3).toUpperCase() === word.toUpperCase());
    return names?.[found < 0 ? Number(word) : found] ?? word;
  };
  const parts = text.split(",").map((part) => {
    const [range, step] = part.split("/");
    const [from, to] = range.split("-");
    const whole = to ? `${named(from)} to ${named(to)}` : named(from);
    return step ? `every ${step} from ${whole}${to ? "" : " on"}` : whole;
  });
  return `${lead} ${listed(parts)}`;
}

function timeOfDay(minute, hour) {
  const single = /^\d+(,\d+)*$/;
  if (single.test(minute) && single.test(hour)) {
    const two = (number) => number.padStart(2, "0");
    const times = hour.split(",").flatMap((each) => minute.split(",").map((other) => `${two(each)}:${two(other)}`));
    return `at ${listed(times)}`;
  }
  const minutes = field(minute, "at minute", "minute") ?? "every minute";
  const hours = field(hour, "in hour", "hour") ?? (minutes[0] === "a" && "of each hour");
  return hours ? `${minutes}, ${hours}` : minutes;
}

// Empty for what is no such expression.
export function cronInWords(cron) {
  const [minute, hour, day, month, weekday, ...more] = cron.trim().split(/\s+/);
  if (!weekday || more[0]) return "";
  const inMonth = field(day, "on day", "day");
  const inWeek = field(weekday, "on", "weekday", DAYS);
  // Either of both counts, unless one begins with a star.
  const both = /^\*/.test(day) || /^\*/.test(weekday) ? " and " : " or ";
  const days = [inMonth && `${inMonth} of the month`, inWeek].filter(Boolean).join(both);
  const words = [days, field(month, "in", "month", MONTHS), timeOfDay(minute, hour)].filter(Boolean).join(", ");
  return /^at \d/.test(words) ? `each day ${words}` : words;
}

export function spanInWords(seconds) {
  const [size, unit] = [
    [86_400, "day"],
    [3_600, "hour"],
    [60, "minute"],
    [1, "second"],
  ].find(([each]) => seconds % each === 0);
  return seconds === size ? `every ${unit}` : `every ${seconds / size} ${unit}s`;
}
