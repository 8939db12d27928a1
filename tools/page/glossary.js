// The glossary on a page: the first use of each term links to its definition at the end of the page. The page holds
// docs/glossary.md as text in the element "glossary-text".
const glossary = (() => {
  const plain = text => text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[`*]/g, "").replace(/\s+/g, " ").trim();
  const terms = new Map(), names = new Map();
  for (const [, id, name, text] of document.getElementById("glossary-text").textContent.matchAll(/^- <a id="([^"]+)"><\/a>\*\*([^*]+)\*\*:?([^]*?)(?=\n- |\n\n|\n#|$(?![^]))/gm)) {
    terms.set(id, { name, text: plain(text) });
    for (const alias of name.replace(/\([^)]*\)/g, "").split(", ").map(part => part.trim()).filter(part => part.length > 1)) {
      names.set(alias.toLowerCase(), id);
      names.set(alias.toLowerCase().replace(/parallelism$/, "parallel"), id);
    }
  }
  const words = [...names.keys()].sort((a, b) => b.length - a.length).map(word => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return { terms, names, find: new RegExp(`(?<![\\w-])(${words.join("|")})s?(?![\\w-])`, "gi"), shown: new Set() };
})();

/// Adds a definition to the end of the page.
function showTerm(id) {
  if (glossary.shown.has(id)) return;
  glossary.shown.add(id);
  let list = document.getElementById("terms");
  if (!list) {
    list = document.createElement("dl");
    list.id = "terms";
    const section = document.createElement("section"), title = document.createElement("h2");
    section.id = "section-glossary";
    title.textContent = "Glossary";
    section.append(title, list);
    (document.querySelector("main") ?? document.body).append(section);
  }
  const name = document.createElement("dt"), text = document.createElement("dd"), term = glossary.terms.get(id);
  name.id = `term-${id}`;
  name.textContent = term.name;
  text.textContent = term.text;
  list.append(name, text);
}

/// Links the first use of each term in the elements of `root` that match `where`; `linked` has the terms that have one.
function linkTerms(root, where, linked = new Set()) {
  for (const element of root.querySelectorAll(where)) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), nodes = [];
    while (walker.nextNode()) if (!walker.currentNode.parentElement.closest("a, button, select, pre, kbd, output")) nodes.push(walker.currentNode);
    for (let node of nodes) {
      for (const match of [...node.data.matchAll(glossary.find)].reverse()) {
        const id = glossary.names.get(match[1].toLowerCase());
        if (linked.has(id) || (match[0] === "zero" && !/^ [0-3]/.test(node.data.slice(match.index + 4)))) continue;  // a number, not ZeRO
        linked.add(id);
        showTerm(id);
        const link = document.createElement("a"), word = node.splitText(match.index);
        word.splitText(match[0].length);
        link.className = "term";
        link.href = `#term-${id}`;
        link.title = glossary.terms.get(id).text;
        link.tabIndex = -1;  // the list at the end is in the order of the page
        link.addEventListener("click", event => { event.preventDefault(); document.getElementById(`term-${id}`).scrollIntoView({ block: "center" }); });
        word.replaceWith(link);
        link.append(word);
      }
    }
  }
}
