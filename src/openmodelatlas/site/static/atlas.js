/* Enhances pages that are complete without it: panels, lights, folding, walking, search, theme. A classic script that
   fetches nothing, so that a page opened from disk works like one that is served. */
(function () {
  "use strict";
  var doc = document, root = doc.documentElement, body = doc.body;
  var base = root.dataset.model; // where this page's model lives, relative to the page; undefined without a model
  var panel = doc.getElementById("panel"), content = doc.getElementById("content");
  root.classList.add("script");
  var opener = null, shown = null, folded = {}, loading = null;

  function each(list, fn) { Array.prototype.forEach.call(list, fn); }
  function all(selector, from) { return (from || doc).querySelectorAll(selector); }
  function closest(event, selector) { return event.target.closest ? event.target.closest(selector) : null; }
  function parent(id) { return id.indexOf(":") >= 0 ? id.slice(0, id.lastIndexOf(":")) : id.slice(0, Math.max(0, id.lastIndexOf("."))); }

  /* Theme */
  try { if (localStorage.atlasTheme) root.dataset.theme = localStorage.atlasTheme; } catch (e) { /* storage may be off */ }
  doc.getElementById("theme").addEventListener("click", function () {
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.atlasTheme = root.dataset.theme; } catch (e) { /* storage may be off */ }
  });

  /* The model's shared data: a script beside its pages, loaded when first needed. */
  function withData(then) {
    if (window.atlas) { then(window.atlas); return; }
    if (!loading) {
      loading = [];
      var script = doc.createElement("script");
      script.src = base + "data.js";
      script.onload = function () { loading.forEach(function (fn) { fn(window.atlas); }); };
      doc.head.appendChild(script);
    }
    loading.push(then);
  }
  function rebase(element) {
    if (!base) return;
    each(all("a[href]", element), function (a) {
      var href = a.getAttribute("href");
      if (!/^([a-z]+:|#|\/)/.test(href)) a.setAttribute("href", base + href);
    });
  }

  /* Lights: an equation's symbol and what it stands for in the diagram, both ways. */
  function clearLights() { each(all(".lit"), function (e) { e.classList.remove("lit"); }); }
  function lightTarget(id) {
    if (id === "residual") {
      each(all(".map .stream, .map .box.add"), function (e) { e.classList.add("lit"); });
      return;
    }
    var found = false, at = id;
    while (!found) {
      each(all(".map .n"), function (n) {
        var also = n.dataset.also ? n.dataset.also.split(" ") : [];
        if (n.dataset.id === at || also.indexOf(at) >= 0) { n.classList.add("lit"); found = true; }
        if (n.dataset.from === at && at !== "") n.classList.add("lit");
      });
      if (found || !at || at.charAt(0) === ":") break;
      at = parent(at);
    }
  }
  function lightFrom(symbol) {
    clearLights();
    symbol.classList.add("lit");
    symbol.dataset.light.split(" ").forEach(lightTarget);
  }
  function lightSymbols(n) {
    clearLights();
    n.classList.add("lit");
    var ids = [n.dataset.id].concat(n.dataset.also ? n.dataset.also.split(" ") : []);
    var stream = n.querySelector(".stream") !== null;
    each(all("[data-light]"), function (s) {
      var hit = s.dataset.light.split(" ").some(function (t) {
        return (stream && t === "residual") || ids.some(function (id) {
          return t === id || parent(id) === t && id.indexOf(":") > 0 || t.indexOf(id + ".") === 0 && id.indexOf(":") < 0;
        });
      });
      if (hit) s.classList.add("lit");
    });
  }
  function overLight(event) {
    var symbol = closest(event, "[data-light]");
    if (symbol) { lightFrom(symbol); return; }
    var n = closest(event, ".map .n");
    if (n) lightSymbols(n);
  }
  function outLight(event) { if (closest(event, "[data-light], .map .n")) clearLights(); }
  doc.addEventListener("mouseover", overLight);
  doc.addEventListener("mouseout", outLight);
  doc.addEventListener("focusin", overLight);
  doc.addEventListener("focusout", outLight);

  /* Folding containers in place */
  function picture(scope) { return doc.querySelector('.pic[data-scope="' + scope + '"]'); }
  function keyOf(scope) { return Object.keys(folded[scope] || {}).sort().join(" "); }
  function redraw(scope) {
    var pic = picture(scope), svg = window.atlas.pictures[scope][keyOf(scope)];
    if (!pic || svg === undefined) return;
    pic.innerHTML = svg;
    rebase(pic);
    mark();
    doubts();
    fit();
    lens();
    edges();
  }
  /* What no run has verified stands out, the rest steps back. */
  function doubts() {
    var button = doc.getElementById("doubt");
    if (!button) return;
    var on = button.getAttribute("aria-pressed") === "true", ids = button.dataset.ids.split(" ");
    each(all(".map .n"), function (n) {
      var open = ids.indexOf(n.dataset.id) >= 0;
      n.classList.toggle("unproved", on && open);
      n.classList.toggle("faded", on && !open);
    });
  }
  function fold(id, open) {
    withData(function (data) {
      each(Object.keys(data.pictures), function (scope) {
        var states = Object.keys(data.pictures[scope]);
        if (!states.some(function (s) { return s.split(" ").indexOf(id) >= 0; })) return;
        var set = folded[scope] || (folded[scope] = {});
        if (open) for (var at = id; at && at !== scope; at = parent(at)) set[at] = true;
        else each(Object.keys(set), function (k) { if (k === id || k.indexOf(id + ".") === 0) delete set[k]; });
        redraw(scope);
      });
    });
  }
  function foldAll(open) {
    withData(function (data) {
      each(Object.keys(data.pictures), function (scope) {
        if (!scope) return;
        var states = Object.keys(data.pictures[scope]), most = states[states.length - 1];
        folded[scope] = {};
        if (open && most) most.split(" ").forEach(function (id) { folded[scope][id] = true; });
        redraw(scope);
      });
    });
  }
  function toggleFold(button) {
    var id = button.dataset.fold, open = button.getAttribute("aria-expanded") !== "true";
    fold(id, open);
    var again = doc.querySelector('[data-fold="' + id + '"]');
    if (again) again.focus();
  }
  /* Both pictures side by side are made to fit the stage, while they stay large enough to read. */
  function fit() {
    var pair = doc.querySelector(".pair");
    if (!pair) return;
    pair.style.zoom = 1;
    pair.classList.remove("alone");
    var stage = doc.getElementById("stage"), style = getComputedStyle(stage);
    var room = stage.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    var wide = 0;
    each(pair.children, function (c) { wide += c.offsetWidth || 40; });
    if (innerWidth <= 860 || wide <= room) return;
    if (room / wide >= 0.8) pair.style.zoom = room / wide;
    else pair.classList.add("alone"); // the block has no room beside the model: it has the stage to itself
  }
  /* Of a model with several kinds of block, one kind is shown large beside the whole. */
  function enlarged() { return doc.querySelector(".regions figure:not([hidden])"); }
  function enlarge(region) {
    var figures = all(".regions figure");
    if (figures.length < 2 || !doc.querySelector('.regions figure[data-region="' + region + '"]')) return;
    each(figures, function (f) { f.hidden = f.dataset.region !== region; });
    each(all("[data-enlarge]"), function (b) { b.setAttribute("aria-pressed", b.dataset.enlarge === region); });
    fit();
    lens();
    edges();
  }
  /* The lens: from the region's box in the model's picture to the picture that enlarges it */
  function lens() {
    var svg = doc.querySelector(".lens");
    if (!svg) return;
    var large = enlarged(), whole = doc.querySelector('.pic[data-scope=""] svg.map');
    if (!large || !whole || !whole.dataset.zoom) return;
    var maps = [whole, large.querySelector("svg.map")], frame = maps[1].querySelector(".frame");
    var zooms = whole.dataset.zoom.split(";").filter(function (z) { return z.split(" ")[0] === large.dataset.region; });
    if (!zooms.length) return;
    var z = zooms[0].split(" ").slice(1).map(Number);
    var start = z[0] - Number(maps[0].getAttribute("width"));
    var top = Number(frame.getAttribute("y")), bottom = top + Number(frame.getAttribute("height"));
    var high = Number(maps[1].getAttribute("height"));
    svg.setAttribute("viewBox", "0 0 56 " + high);
    svg.setAttribute("height", high);
    var end = 56 - 8 + Number(frame.getAttribute("x"));
    svg.firstElementChild.setAttribute("d", "M" + (start + 8) + " " + z[1] + "L" + end + " " + (top + 12) + "V" + (bottom - 12) + "L" + (start + 8) + " " + z[2] + "z");
  }

  /* What is wider than its place fades out on the side where there is more of it. */
  function edge(e) {
    e.classList.toggle("cut-right", e.scrollWidth - e.clientWidth - e.scrollLeft > 4);
    e.classList.toggle("cut-left", e.scrollLeft > 4);
  }
  function edges() { each(all(".scroll, .pic, .eq, pre"), edge); }
  doc.addEventListener("scroll", function (event) { if (event.target.matches && event.target.matches(".scroll, .pic, .eq, pre")) edge(event.target); }, true);
  addEventListener("resize", edges);
  doc.addEventListener("toggle", edges, true); // text that was folded away
  edges();

  /* The panel */
  function mark() {
    each(all(".sel"), function (e) { e.classList.remove("sel"); });
    if (shown !== null) each(all(".map .n"), function (n) { if (n.dataset.id === shown) n.classList.add("sel"); });
  }
  function visible(id) { return Array.prototype.some.call(all(".map .n"), function (n) { return n.dataset.id === id; }); }
  function reveal(id) {
    enlarge(id.split(/[.:]/)[0]);
    for (var at = parent(id); at; at = parent(at)) if (visible(at) || at.indexOf(".") < 0) break;
    if (!visible(id)) {
      var up = id.indexOf(":") >= 0 ? parent(parent(id)) : parent(id);
      if (up && up.indexOf(".") > 0) fold(up, true);
    }
  }
  /* `blocks.7.attention.q`, a block's own path, as its region's node: `block.attention.q` */
  function regional(name, data) {
    var own = /^blocks\.(\d+)(?=[.:]|$)/.exec(name);
    if (!own) return name;
    var found = Object.keys(data.regions).filter(function (r) { return data.regions[r].indexOf(Number(own[1])) >= 0; });
    return found.length ? found[0] + name.slice(own[0].length) : name;
  }
  function show(id, push) {
    withData(function (data) {
      id = regional(id, data);
      if (!(id in data.panels)) return;
      if (shown === null) opener = doc.activeElement && doc.activeElement !== body ? doc.activeElement.dataset.id || "" : "";
      if (push && decodeURIComponent(location.hash.slice(1)) !== id) history.pushState(null, "", "#" + id);
      shown = id;
      content.innerHTML = data.panels[id];
      rebase(content);
      var own = doc.getElementById("own");
      own.href = base + (id.charAt(0) === ":" ? "model" + id : id).replace(":", "--") + ".html";
      panel.hidden = false;
      panel.scrollTop = 0;
      doc.getElementById("board").classList.add("with-panel");
      fit();
      reveal(id);
      mark();
      edges();
      var title = content.querySelector(".title");
      if (title) title.focus({ preventScroll: true });
    });
  }
  function hide(push) {
    if (!panel || panel.hidden) return;
    var last = shown;
    panel.hidden = true;
    shown = null;
    doc.getElementById("board").classList.remove("with-panel");
    fit();
    if (push) history.pushState(null, "", location.href.split("#")[0]);
    mark();
    clearLights();
    var back = opener || last;
    each(all(".map .n"), function (n) { if (n.dataset.id === back) { n.focus({ preventScroll: true }); back = null; } });
  }
  function fromAddress() {
    var id = decodeURIComponent(location.hash.slice(1));
    if (id) show(id, false); else hide(false);
  }
  if (panel) {
    each(all(".maps .tools"), function (t) { t.hidden = false; });
    doc.getElementById("close").addEventListener("click", function () { hide(true); });
    addEventListener("popstate", fromAddress);
    addEventListener("hashchange", fromAddress);
    if (enlarged()) enlarge(enlarged().dataset.region);
    lens();
    fit();
    addEventListener("resize", fit);
    if (location.hash.length > 1) fromAddress();
  }

  doc.addEventListener("click", function (event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    var button = closest(event, "[data-fold]");
    if (button) { event.preventDefault(); toggleFold(button); return; }
    var many = closest(event, "[data-open]");
    if (many) { foldAll(many.dataset.open === "all"); return; }
    var large = closest(event, "[data-enlarge]");
    if (large) { enlarge(large.dataset.enlarge); return; }
    var doubt = closest(event, "#doubt");
    if (doubt) { doubt.setAttribute("aria-pressed", doubt.getAttribute("aria-pressed") === "true" ? "false" : "true"); doubts(); return; }
    var symbol = closest(event, ".eq [data-light]");
    if (symbol && panel) {
      var target = symbol.dataset.light.split(" ").filter(function (t) { return t !== "residual"; })[0];
      if (target) show(target, true);
      return;
    }
    var link = closest(event, ".map .n, a.go");
    if (link && panel && link.dataset.id) { event.preventDefault(); show(link.dataset.id, true); }
  });

  /* Walking through a diagram: the nearest thing in the arrow's direction; what lies more aside than ahead comes last */
  function cost(ahead, aside) { return ahead + 2 * aside + (aside > ahead ? 1e5 : 0); }
  function centre(e) {
    var wire = e.querySelector(".hit");
    if (wire) { // a value stands where its wire starts
      var p = wire.getPointAtLength(Math.min(14, wire.getTotalLength() / 2)).matrixTransform(wire.getScreenCTM());
      return [p.x, p.y];
    }
    var r = (e.querySelector("rect,circle") || e).getBoundingClientRect();
    return [r.left + r.width / 2, r.top + r.height / 2];
  }
  function walk(from, key) {
    var axis = /Left|Right/.test(key) ? 0 : 1, sign = /Right|Down/.test(key) ? 1 : -1;
    var here = centre(from), best = null, least = Infinity;
    each(all(".map .n"), function (n) {
      if (n === from || !n.getClientRects().length) return;
      var c = centre(n), ahead = (c[axis] - here[axis]) * sign, aside = Math.abs(c[1 - axis] - here[1 - axis]);
      if (ahead > 2 && cost(ahead, aside) < least) { least = cost(ahead, aside); best = n; }
    });
    if (best) best.focus();
  }

  /* Search */
  var q = doc.getElementById("q"), hits = doc.getElementById("hits"), chosen = -1;
  function rank(words, text) {
    return words.every(function (w) { return text.indexOf(w) >= 0; }) ? text.indexOf(words[0]) + text.length / 1000 : -1;
  }
  var form = doc.querySelector(".filters");
  function filterGallery() {
    var words = q.value.toLowerCase().split(/\s+/).filter(Boolean), shown = 0, cards = all(".cards > li");
    each(cards, function (li) {
      var fits = words.every(function (w) { return li.dataset.search.indexOf(w) >= 0; });
      each(all("[data-filter]", form), function (s) {
        fits = fits && (!s.value || (li.dataset[s.dataset.filter] || "").split("|").indexOf(s.value) >= 0);
      });
      li.hidden = !fits;
      shown += fits;
    });
    each(all("section.release"), function (section) { section.hidden = !section.querySelector(".cards > li:not([hidden])"); });
    doc.getElementById("none").hidden = shown > 0;
    doc.getElementById("shown").textContent = shown < cards.length ? shown + " of " + cards.length : "";
  }
  /* By parameters or by date the cards stand in one list; by family they go back to where they were. */
  function orderGallery(by) {
    var flat = doc.querySelector(".cards.flat"), items = Array.prototype.slice.call(all(".cards > li"));
    items.sort(function (a, b) { return by === "count" ? a.dataset.count - b.dataset.count : by ? (a.dataset.date < b.dataset.date ? -1 : a.dataset.date > b.dataset.date ? 1 : a.dataset.place - b.dataset.place) : a.dataset.place - b.dataset.place; });
    items.forEach(function (li) { (by ? flat : homes[li.dataset.place]).appendChild(li); });
    filterGallery();
  }
  var homes = [];
  if (form) {
    var flat = doc.createElement("ul");
    flat.className = "cards flat";
    doc.querySelector(".releases").appendChild(flat);
    each(all(".cards > li"), function (li, i) {
      li.dataset.place = i;
      li.dataset.search += " " + li.closest(".release").dataset.search;
      homes.push(li.parentNode);
    });
    form.hidden = false;
    form.addEventListener("change", function (event) { if (event.target.id === "order") orderGallery(event.target.value); else filterGallery(); });
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    if (doc.getElementById("order").value) orderGallery(doc.getElementById("order").value); else filterGallery(); // kept by the browser
  }
  function list(words, data) {
    var found = [];
    each(Object.keys(data.nodes), function (id) {
      var n = data.nodes[id], r = rank(words, (n[0] + " " + id + " " + n[1]).toLowerCase());
      if (words.length === 1 && id === words[0]) found.push([-1, id, n[0]]); // asked for by its own name
      else if (r >= 0) found.push([r + (id.indexOf(":") >= 0 ? 500 : 0), id, n[0]]);
    });
    found.sort(function (a, b) { return a[0] - b[0]; });
    hits.innerHTML = "";
    chosen = -1;
    found.slice(0, 12).forEach(function (f, i) {
      var li = doc.createElement("li"), a = doc.createElement("a"), code = doc.createElement("code");
      li.id = "hit" + i;
      li.setAttribute("role", "option");
      a.href = base + (f[1].charAt(0) === ":" ? "model" + f[1] : f[1]).replace(":", "--") + ".html";
      a.className = "go";
      a.tabIndex = -1;
      a.dataset.id = f[1];
      a.textContent = f[2];
      code.textContent = f[1];
      a.appendChild(code);
      li.appendChild(a);
      hits.appendChild(li);
    });
    open(hits.children.length > 0);
    if (hits.children.length) choose(0);
  }
  function open(yes) { hits.hidden = !yes; q.setAttribute("aria-expanded", yes); if (!yes) q.removeAttribute("aria-activedescendant"); }
  function choose(i) {
    chosen = i;
    each(hits.children, function (li, k) { li.setAttribute("aria-selected", k === i); });
    q.setAttribute("aria-activedescendant", "hit" + i);
  }
  q.addEventListener("input", function () {
    var words = q.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (base === undefined) { if (form) filterGallery(); return; }
    if (!words.length) { open(false); return; }
    withData(function (data) { list(words.map(function (w) { return regional(w, data); }), data); });
  });
  q.addEventListener("keydown", function (event) {
    var count = hits.children.length;
    if (event.key === "Escape") { q.value = ""; q.dispatchEvent(new Event("input")); open(false); q.blur(); event.stopPropagation(); }
    else if (!hits.hidden && event.key === "ArrowDown") { event.preventDefault(); choose((chosen + 1) % count); }
    else if (!hits.hidden && event.key === "ArrowUp") { event.preventDefault(); choose((chosen + count - 1) % count); }
    else if (!hits.hidden && event.key === "Enter" && chosen >= 0) { event.preventDefault(); var a = hits.children[chosen].firstElementChild; q.value = ""; open(false); q.blur(); a.click(); }
  });
  doc.addEventListener("click", function (event) { if (!closest(event, ".find")) open(false); else if (closest(event, "#hits a")) { open(false); q.value = ""; } });

  doc.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    var typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "/" && !typing) { event.preventDefault(); q.focus(); return; }
    if (typing) return;
    if (event.key === "Escape") { hide(true); return; }
    var n = closest(event, ".map .n, [data-fold]");
    if (n && /^Arrow/.test(event.key)) { event.preventDefault(); walk(n, event.key); }
    else if (event.key === "Enter" || event.key === " ") {
      var act = closest(event, "[data-fold], .eq [data-light]");
      if (act) { event.preventDefault(); act.dispatchEvent(new MouseEvent("click", { bubbles: true })); }
    }
  });
})();
