//! A small auction site after RUBiS, the demo application.
