/* riverui in the browser: browsers get these modules as one. Without them every page still works. */
import "./times.js";
import "./notices.js";
import "./requests.js";
import "./failures.js";
import "./search-steps.js";
import "./live.js";
import "./selection.js";
import "./popups.js";
import "./kept.js";
import "./copy.js";
import "./preferences.js";
import "./suggest.js";
import "./palette.js";
import "./charts.js";
import "./workflow-graph.js";
import "./keys.js";
