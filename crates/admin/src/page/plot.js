"use strict";
// A plot of a few lines over time on a canvas: a scale that fits, lines, a legend with the newest values.

const PLOT_COLOURS = ["--one", "--two", "--three", "--four", "--five", "--six"];

// The next round number at or above a value: 1, 2 or 5 times a power of ten.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) if (value <= step * power) return step * power;
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

// Draws `lines`, each {name, values}, the newest value last; null is a gap. `places` is how many values fit across.
function drawPlot(canvas, legend, lines, places) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width || !height) return;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const style = getComputedStyle(document.documentElement);
  const text = getComputedStyle(document.body).color;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const left = 46, right = width - 4, top = 8, bottom = height - 18;
  let most = 0;
  for (const line of lines) for (const value of line.values) if (value > most) most = value;
  most = roundUp(most);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.lineWidth = 1;
  for (let part = 0; part <= 4; part++) {
    const y = bottom - (bottom - top) * part / 4;
    pen.strokeStyle = style.getPropertyValue("--soft");
    pen.beginPath();
    pen.moveTo(left, y);
    pen.lineTo(right, y);
    pen.stroke();
    pen.fillStyle = text;
    pen.textAlign = "right";
    pen.fillText(shortNumber(most * part / 4), left - 5, y);
  }
  pen.textAlign = "left";
  pen.fillText("−" + Math.round(places / 60) + " min", left, height - 7);
  pen.textAlign = "right";
  pen.fillText("now", right, height - 7);
  pen.lineWidth = 1.6;
  lines.forEach((line, number) => {
    pen.strokeStyle = style.getPropertyValue(PLOT_COLOURS[number % PLOT_COLOURS.length]);
    pen.beginPath();
    let draws = false;
    line.values.forEach((value, at) => {
      if (value === null) { draws = false; return; }
      const x = right - (right - left) * (line.values.length - 1 - at) / (places - 1);
      const y = bottom - (bottom - top) * Math.min(value / most, 1);
      if (draws) pen.lineTo(x, y); else pen.moveTo(x, y);
      draws = true;
    });
    pen.stroke();
  });
  const words = lines.map((line) => line.name + " " + shortNumber(line.values[line.values.length - 1]));
  canvas.setAttribute("aria-label", words.join(", "));
  legend.replaceChildren(...words.map((word, number) => {
    const item = document.createElement("span");
    item.className = "c" + number % PLOT_COLOURS.length;
    item.textContent = word;
    return item;
  }));
}
