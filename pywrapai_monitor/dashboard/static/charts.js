// Draws each figure's canvas from the JSON beside it: stacked bars or lines over steps of time.
// What is missing stays a gap, and the step that is not over is hatched or dotted.

const { Chart } = window;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");
const charts = new WeakMap(); // by canvas: { chart, text }

const root = getComputedStyle(document.documentElement);
const shade = (name) => root.getPropertyValue(`--${name}`).trim();

function colorOf(color) {
  if (color === null) return shade("rest");
  return shade(typeof color === "number" ? `c${color}` : color);
}

const whole = new Intl.NumberFormat("en-US");
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

function usd(value) {
  if (value === 0) return "$0";
  const digits = Math.abs(value) >= 1 ? 2 : Math.min(6, 1 - Math.floor(Math.log10(Math.abs(value))) + 1);
  return `$${value.toLocaleString("en-US", { minimumFractionDigits: Math.min(2, digits), maximumFractionDigits: digits })}`;
}

function ms(value) {
  if (value < 999.5) return `${Math.round(value)} ms`;
  if (value < 59_995) return `${(value / 1000).toLocaleString("en-US", { maximumFractionDigits: 2 })} s`;
  return `${(value / 60_000).toLocaleString("en-US", { maximumFractionDigits: 1 })} min`;
}

const units = {
  usd: { full: usd, tick: usd },
  count: { full: (value) => whole.format(value), tick: (value) => (Number.isInteger(value) ? compact.format(value) : "") },
  ms: { full: ms, tick: ms },
};

// Diagonal lines in the series' own colour, for a bar that still grows.
function hatched(color) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.globalAlpha = 0.25;
  pen.fillStyle = color;
  pen.fillRect(0, 0, 6, 6);
  pen.globalAlpha = 1;
  pen.strokeStyle = color;
  pen.lineWidth = 1.3;
  for (const x of [-6, 0, 6]) {
    pen.beginPath();
    pen.moveTo(x, 6);
    pen.lineTo(x + 6, 0);
    pen.stroke();
  }
  return pen.createPattern(tile, "repeat");
}

function bars({ label, color, values }, finished) {
  const full = colorOf(color);
  const open = hatched(full);
  return {
    label,
    data: values,
    backgroundColor: finished.map((over) => (over ? full : open)),
    borderColor: shade("card"),
    borderWidth: { top: values.length > 60 ? 0 : 1 },
    borderSkipped: false,
    maxBarThickness: 42,
    categoryPercentage: 0.86,
    barPercentage: 0.94,
  };
}

function line({ label, color, values }, finished) {
  const full = colorOf(color);
  const known = (index) => values[index] !== null && values[index] !== undefined;
  const alone = (index) => !known(index - 1) && !known(index + 1);
  return {
    label,
    data: values,
    borderColor: full,
    backgroundColor: full,
    borderWidth: 1.8,
    spanGaps: false,
    tension: 0,
    segment: { borderDash: ({ p1DataIndex }) => (finished[p1DataIndex] ? undefined : [2, 3]) },
    pointRadius: values.map((_, index) => (alone(index) ? 3 : finished[index] ? 0 : 3)),
    pointBackgroundColor: values.map((_, index) => (finished[index] ? full : shade("card"))),
    pointHoverRadius: 4,
    pointHitRadius: 8,
  };
}

function tooltip(data) {
  const { full } = units[data.unit];
  const stacked = data.kind === "stacked";
  return {
    backgroundColor: shade("ink"),
    titleColor: shade("card"),
    bodyColor: shade("card"),
    footerColor: shade("card"),
    padding: 10,
    cornerRadius: 7,
    boxPadding: 4,
    multiKeyBackground: "transparent",
    boxWidth: 9,
    boxHeight: 9,
    itemSort: (a, b) => b.datasetIndex - a.datasetIndex,
    filter: (item) => !stacked || item.raw > 0,
    callbacks: {
      title: ([item]) => (item ? `${item.label}${data.finished[item.dataIndex] ? "" : " (not over)"}` : ""),
      label: (item) => ` ${item.dataset.label}  ${full(item.raw)}`,
      labelColor: (item) => {
        const color = colorOf(data.series[item.datasetIndex].color);
        return { borderColor: color, backgroundColor: color };
      },
      footer: (items) => (stacked && items.length > 1 ? `All  ${full(items.reduce((sum, item) => sum + item.raw, 0))}` : ""),
    },
  };
}

function scales(data) {
  const stacked = data.kind === "stacked";
  const ticks = { color: shade("quiet") };
  return {
    x: {
      stacked,
      grid: { display: false },
      border: { color: shade("line") },
      ticks: { ...ticks, maxRotation: 0, autoSkipPadding: 14 },
    },
    y: {
      stacked,
      beginAtZero: true,
      border: { display: false },
      grid: { color: shade("line"), tickLength: 0 },
      ticks: { ...ticks, padding: 8, maxTicksLimit: 6, callback: units[data.unit].tick },
    },
  };
}

function configuration(data) {
  const stacked = data.kind === "stacked";
  return {
    type: stacked ? "bar" : "line",
    data: {
      labels: data.labels,
      datasets: data.series.map((series) => (stacked ? bars : line)(series, data.finished)),
    },
    options: {
      animation: calm.matches ? false : { duration: 300 },
      maintainAspectRatio: false,
      interaction: { mode: "index", intersect: false },
      plugins: { legend: { display: false }, tooltip: tooltip(data) },
      scales: scales(data),
    },
  };
}

function draw(figure) {
  const canvas = figure.querySelector("canvas");
  const text = figure.querySelector("script[type='application/json']").textContent;
  const drawn = charts.get(canvas);
  if (drawn?.text === text) return;
  const made = configuration(JSON.parse(text));
  if (drawn && drawn.chart.config.type === made.type) {
    Object.assign(drawn.chart, { data: made.data, options: made.options });
    drawn.chart.update("none");
    drawn.text = text;
    return;
  }
  charts.set(canvas, { chart: new Chart(canvas, made), text });
}

function drawAll() {
  Chart.defaults.font.family = shade("sans");
  Chart.defaults.font.size = 11.5;
  for (const figure of document.querySelectorAll("[data-chart]")) draw(figure);
}

function redraw() {
  for (const canvas of document.querySelectorAll("[data-chart] canvas")) {
    charts.get(canvas)?.chart.destroy();
    charts.delete(canvas);
  }
  drawAll();
}

if (Chart) {
  drawAll();
  document.addEventListener("pywrapai:patched", drawAll);
  dark.addEventListener("change", redraw);
}
