"use strict";
// A plot of a few lines over time on a canvas: a scale that fits, lines, limits as dashed lines, and a legend with the newest
// values, or with those below the pointer. The arrow keys move over the values as the pointer does.

const PLOT_COLOURS = ["--one", "--two", "--three", "--four", "--five", "--six"];
const PLOT_HEIGHT_OF_TIMES = 20, PLOT_TOP = 10, PLOT_RIGHT = 8;

// The next round number at or above a value: 1, 2 or 5 times a power of ten.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) if (value <= step * power * 1.000001) return step * power;
  return 10 * power;
}

function shortNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return (value / 1e9).toFixed(1) + " G";
  if (size >= 1e6) return (value / 1e6).toFixed(1) + " M";
  if (size >= 1e4) return (value / 1e3).toFixed(1) + " k";
  if (size >= 100 || value === 0) return value.toFixed(0);
  return value.toFixed(size >= 10 ? 1 : 2);
}

// A number at an axis: without zeros that say nothing.
function axisNumber(value) {
  return shortNumber(value).replace(/\.0+(?=$| )/, "").replace(/(\.\d*?)0+(?=$| )/, "$1");
}

// How values become heights: from zero up, or by powers of ten.
function plotScale(most, least, isLog) {
  if (!isLog) {
    const top = roundUp(most);
    return { top, marks: [0, 1, 2, 3, 4].map((part) => top * part / 4), part: (value) => Math.min(Math.max(value / top, 0), 1) };
  }
  const up = Math.ceil(Math.log10(most > 0 ? most : 1) - 1e-9), down = Math.min(Math.floor(Math.log10(least > 0 ? least : 0.1) + 1e-9), up - 1);
  const marks = [];
  for (let power = down; power <= up; power++) marks.push(10 ** power);
  return { top: 10 ** up, marks, part: (value) => Math.min(Math.max((Math.log10(Math.max(value, 1e-9)) - down) / (up - down), 0), 1) };
}

// The value of each canvas that is looked at, counted from the newest; none when nobody looks.
const plotLooks = new WeakMap();

// Looks at another value of a plot when the pointer or an arrow key says so; `draw` draws the plot again.
function lookAtPlot(canvas, places, draw) {
  const look = (back) => {
    if (back === null) plotLooks.delete(canvas);
    else plotLooks.set(canvas, Math.min(Math.max(Math.round(back), 0), places - 1));
    draw();
  };
  canvas.addEventListener("pointermove", (event) => {
    const left = Number(canvas.dataset.left || 0), right = canvas.clientWidth - PLOT_RIGHT;
    look((right - event.offsetX) / (right - left) * (places - 1));
  });
  canvas.addEventListener("pointerleave", () => look(null));
  canvas.addEventListener("blur", () => look(null));
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: 1, ArrowRight: -1, PageUp: 30, PageDown: -30, Home: places, End: -places }[event.key];
    if (event.key === "Escape") look(null);
    if (by === undefined) return;
    event.preventDefault();
    look((plotLooks.get(canvas) || 0) + by);
  });
}

function startPlot(canvas) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width || !height) return null;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.lineWidth = 1;
  return { pen, width, height };
}

// Draws `lines`, each {name, values}, the newest value last; null is a gap. `of` has the number of `places` across, `limits`,
// each {name, value, isSpare}, and whether the scale goes by powers of ten. A spare limit has no line, since it is far away.
function drawPlot(canvas, legend, lines, { places, limits = [], isLog = false }) {
  const started = startPlot(canvas);
  if (!started) return;
  const { pen, width, height } = started, style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  let most = 0, least = Infinity;
  for (const line of lines) for (const value of line.values) if (value > 0) { most = Math.max(most, value); least = Math.min(least, value); }
  const shown = limits.filter((limit) => !limit.isSpare);
  for (const limit of shown) most = Math.max(most, limit.value * 1.04);
  const scale = plotScale(most, least, isLog);
  const labels = scale.marks.map(axisNumber);
  const left = Math.ceil(Math.max(...labels.map((text) => pen.measureText(text).width))) + 10;
  const right = width - PLOT_RIGHT, top = PLOT_TOP, bottom = height - PLOT_HEIGHT_OF_TIMES;
  canvas.dataset.left = left;
  const y = (value) => bottom - (bottom - top) * scale.part(value), x = (back) => right - (right - left) * back / (places - 1);
  scale.marks.forEach((mark, at) => {
    pen.strokeStyle = colour("--grid");
    pen.beginPath();
    pen.moveTo(left, Math.round(y(mark)) + 0.5);
    pen.lineTo(right, Math.round(y(mark)) + 0.5);
    pen.stroke();
    pen.fillStyle = colour("--quiet");
    pen.textAlign = "right";
    pen.fillText(labels[at], left - 6, y(mark));
  });
  const minutes = Math.round(places / 60), isNarrow = (right - left) / minutes < 62;
  for (let minute = 0; minute <= minutes; minute++) {
    if (isNarrow && ![0, 2, minutes].includes(minute)) continue;
    pen.textAlign = minute === 0 ? "right" : minute === minutes ? "left" : "center";
    pen.fillText(minute === 0 ? "now" : "−" + minute + " min", x(Math.min(minute * 60, places - 1)), height - 8);
  }
  lines.forEach((line, number) => drawLine(pen, line, colour(PLOT_COLOURS[(line.colour ?? number) % PLOT_COLOURS.length]), x, y, bottom));
  pen.setLineDash([6, 4]);
  shown.forEach((limit, number) => {
    pen.strokeStyle = colour("--limit");
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(left, y(limit.value));
    pen.lineTo(right, y(limit.value));
    pen.stroke();
    pen.fillStyle = colour("--limit");
    // Limits of one value have their names beside each other.
    pen.textAlign = ["left", "center", "right"][number % 3];
    pen.fillText(limit.name, [left + 4, (left + right) / 2, right - 4][number % 3], y(limit.value) + (y(limit.value) < top + 12 ? 9 : -8));
  });
  pen.setLineDash([]);
  const back = plotLooks.get(canvas);
  if (back !== undefined) {
    pen.strokeStyle = colour("--quiet");
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x(back), top);
    pen.lineTo(x(back), bottom);
    pen.stroke();
  }
  drawLegend(canvas, legend, lines, limits, back);
}

function drawLine(pen, line, colour, x, y, bottom) {
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = 1.6;
  pen.lineJoin = "round";
  pen.setLineDash(line.isDashed ? [3, 3] : []);
  // One path for each run of values, of which the first line of a plot fills what is below it.
  let run = [];
  const draw = () => {
    if (!run.length) return;
    pen.beginPath();
    run.forEach(([at, value], number) => number ? pen.lineTo(x(at), y(value)) : pen.moveTo(x(at), y(value)));
    if (run.length === 1) pen.lineTo(x(run[0][0]) - 1, y(run[0][1]));
    pen.stroke();
    if (line.isFilled) {
      pen.lineTo(x(run[run.length - 1][0]), bottom);
      pen.lineTo(x(run[0][0]), bottom);
      pen.globalAlpha = 0.12;
      pen.fill();
      pen.globalAlpha = 1;
    }
    run = [];
  };
  line.values.forEach((value, at) => {
    if (value === null || value === undefined) draw();
    else run.push([line.values.length - 1 - at, value]);
  });
  draw();
  pen.setLineDash([]);
}

function drawLegend(canvas, legend, lines, limits, back) {
  const value = (line) => line.values[line.values.length - 1 - (back || 0)];
  const words = lines.map((line) => line.name + " " + shortNumber(value(line)));
  const when = back ? back + " s ago: " : "";
  const bounds = limits.map((limit) => limit.name + " " + shortNumber(limit.value));
  canvas.setAttribute("aria-label", canvas.dataset.title + ", " + when + words.concat(bounds).join(", "));
  const item = (text, name) => {
    const made = document.createElement("span");
    made.className = name;
    made.textContent = text;
    return made;
  };
  legend.replaceChildren(...(when ? [item(when, "when")] : []),
    ...words.map((word, number) => item(word, "key c" + (lines[number].colour ?? number) % PLOT_COLOURS.length + (lines[number].isDashed ? " dashed" : ""))),
    ...bounds.map((word) => item(word, "key limit dashed")));
}
